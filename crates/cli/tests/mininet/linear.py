"""Functions that build a network, as Mininet's own examples do."""
from mininet.net import Mininet
from mininet.topo import LinearTopo
from mininet.topolib import TreeNet
from mininet.log import setLogLevel
from mininet.link import TCLink


def performance():
    net = Mininet(topo=LinearTopo(k=3, lopts=dict(bw=50, delay='2ms')), link=TCLink, autoSetMacs=True)
    net.start()
    net.iperf((net['h1'], net['h3']))
    net.stop()


if __name__ == '__main__':
    setLogLevel('info')
    performance()
