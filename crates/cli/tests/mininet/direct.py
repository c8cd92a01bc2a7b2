from mininet.net import Mininet
from mininet.node import RemoteController, OVSKernelSwitch
from mininet.link import TCLink
from functools import partial
net = Mininet(controller=RemoteController, switch=OVSKernelSwitch, link=partial(TCLink, bw=50), autoStaticArp=True)
c0 = net.addController('c0', controller=RemoteController, ip='127.0.0.1', port=6633)
h1 = net.addHost('h1', ip='10.0.0.11/24'); h2 = net.addHost('h2')
s1 = net.addSwitch('s1')
net.addLink(h1, s1, cls=TCLink, bw=20, delay='5ms', jitter='1ms')
net.addLink(s1, h2)
net.build(); c0.start(); s1.start([c0])
h1.setIP('10.0.0.12/24')
raise RuntimeError('later')
