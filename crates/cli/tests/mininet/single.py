from mininet.topo import Topo
class SingleSwitch(Topo):
    def build(self, n=3):
        s = self.addSwitch('s1')
        for h in range(n):
            host = self.addHost('h%s' % (h + 1))
            self.addLink(host, s)
topos = {'single3': SingleSwitch, 'big': (lambda: SingleSwitch(n=5))}
