#!/usr/bin/env python
"""Class lab: a dumbbell with a bottleneck."""
import os, sys
from time import sleep
from subprocess import Popen, call
from mininet.topo import Topo
from mininet.net import Mininet
from mininet.node import CPULimitedHost, OVSController
from mininet.link import TCLink
from mininet.util import dumpNodeConnections
from mininet.log import setLogLevel, info
from mininet.cli import CLI
from mininet.clean import cleanup

class Dumbbell(Topo):
    def __init__(self, **opts):
        Topo.__init__(self, **opts)
        left, right = self.addSwitch('s1'), self.addSwitch('s2')
        for i in (1, 2):
            self.addLink(self.addHost('h%d' % i, cpu=.25), left, bw=100, delay='1ms')
            self.addLink(self.addHost('h%d' % (i + 2)), right, bw=100, delay='1ms', loss=0.5)
        self.addLink(left, right, bw=10, delay='20ms', max_queue_size=50, use_htb=True)

def run():
    os.system('sysctl -w net.ipv4.tcp_congestion_control=reno')
    topo = Dumbbell()
    net = Mininet(topo=topo, host=CPULimitedHost, link=TCLink, controller=OVSController)
    net.start()
    dumpNodeConnections(net.hosts)
    h1, h3 = net.get('h1', 'h3')
    h1.cmd('sysctl -w net.ipv4.tcp_rmem="4096 87380 16777216"')
    net.pingAll()
    server = h3.popen('iperf -s')
    print(h1.cmd('iperf -t 10 -c ' + h3.IP()))
    sleep(60)
    server.terminate()
    CLI(net)
    net.stop()

if __name__ == '__main__':
    setLogLevel('info')
    run()
