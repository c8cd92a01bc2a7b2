"""A stand-in for Mininet: runs a Mininet program and writes the network that it builds, without building it.

    python3 stand_in.py PROGRAM RESULT [TOPO]

RESULT becomes a JSON document with the network as MiniEdit would save it ("mn") and what was left out ("notes"), or "error".
Commands for nodes and programs of this machine are not executed; sleeps do not wait.
"""

import json, os, re, resource, runpy, subprocess, sys, time, traceback, types

LIMIT_BYTES = 16 << 20
# longfat kills the program earlier, unless longfat itself was killed.
LIMIT_SECONDS = 30
notes, nets, commands = [], [], []


def note(text):
    if text not in notes:
        notes.append(text)


def natural(name):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", str(name))]


class Anything:
    """Stands for everything that this stand-in does not know: every use of it works and has no effect."""

    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *args, **kwargs):
        return Anything()

    def __iter__(self):
        return iter(())

    def __str__(self):
        return ""


# --- topo


class Topo(object):
    def __init__(self, *args, **params):
        self._nodes, self._links = {}, []
        self.hopts, self.sopts, self.lopts = (params.pop(key, {}) for key in ("hopts", "sopts", "lopts"))
        self.build(*args, **params)

    def build(self, *args, **params):
        pass

    def addNode(self, name, **opts):
        self._nodes[name] = opts
        return name

    def addHost(self, name, **opts):
        return self.addNode(name, **dict(self.hopts, **opts))

    def addSwitch(self, name, **opts):
        return self.addNode(name, isSwitch=True, **dict(self.sopts, **opts))

    def addLink(self, node1, node2, port1=None, port2=None, key=None, **opts):
        self._links.append((node1, node2, dict(self.lopts, **opts)))
        return len(self._links) - 1

    def isSwitch(self, name):
        return bool(self._nodes[name].get("isSwitch"))

    def nodes(self, sort=True):
        return sorted(self._nodes, key=natural) if sort else list(self._nodes)

    def hosts(self, sort=True):
        return [n for n in self.nodes(sort) if not self.isSwitch(n)]

    def switches(self, sort=True):
        return [n for n in self.nodes(sort) if self.isSwitch(n)]

    def links(self, sort=False, withKeys=False, withInfo=False):
        return [(a, b) + ((i,) if withKeys else ()) + ((o,) if withInfo else ()) for i, (a, b, o) in enumerate(self._links)]

    def iterLinks(self, withKeys=False, withInfo=False):
        return iter(self.links(False, withKeys, withInfo))

    def nodeInfo(self, name):
        return self._nodes[name]

    def setNodeInfo(self, name, info):
        self._nodes[name] = info

    def linkInfo(self, src, dst, key=None):
        return next((o for a, b, o in self._links if {a, b} == {src, dst}), {})

    def setlinkInfo(self, src, dst, info, key=None):
        self.linkInfo(src, dst).update(info)

    @property
    def g(self):
        return self


class SingleSwitchTopo(Topo):
    def build(self, k=2, **_opts):
        switch = self.addSwitch("s1")
        for i in range(1, k + 1):
            self.addLink(self.addHost("h%d" % i), switch)


class SingleSwitchReversedTopo(SingleSwitchTopo):
    pass


class MinimalTopo(SingleSwitchTopo):
    def build(self):
        SingleSwitchTopo.build(self, k=2)


class LinearTopo(Topo):
    def build(self, k=2, n=1, sopts=None, **_opts):
        last = None
        for i in range(1, k + 1):
            switch = self.addSwitch("s%d" % i, **(sopts or {}))
            for j in range(1, n + 1):
                self.addLink(self.addHost("h%d" % i if n == 1 else "h%ds%d" % (j, i)), switch)
            if last:
                self.addLink(switch, last)
            last = switch


class TreeTopo(Topo):
    def build(self, depth=1, fanout=2):
        self.hostNum = self.switchNum = 1
        self.addTree(depth, fanout)

    def addTree(self, depth, fanout):
        if depth == 0:
            node = self.addHost("h%d" % self.hostNum)
            self.hostNum += 1
            return node
        node = self.addSwitch("s%d" % self.switchNum)
        self.switchNum += 1
        for _ in range(fanout):
            self.addLink(node, self.addTree(depth - 1, fanout))
        return node


class TorusTopo(Topo):
    def build(self, x, y, n=1):
        grid = {}
        for i in range(x):
            for j in range(y):
                name = "%dx%d" % (i + 1, j + 1)
                grid[i, j] = self.addSwitch("s" + name)
                for k in range(n):
                    self.addLink(self.addHost("h" + name if n == 1 else "h%sx%d" % (name, k + 1)), grid[i, j])
        for i in range(x):
            for j in range(y):
                self.addLink(grid[i, j], grid[i, (j + 1) % y])
                self.addLink(grid[i, j], grid[(i + 1) % x, j])


def TreeNet(depth=1, fanout=2, **kwargs):
    return Mininet(TreeTopo(depth, fanout), **kwargs)


# --- nodes and links


class Intf(object):
    def __init__(self, name="", node=None, port=None, link=None, **params):
        self.name, self.node, self.port, self.link, self.params = name, node, port, link, params

    def __str__(self):
        return self.name

    def IP(self):
        return (self.params.get("ip") or self.node.ip or "").split("/")[0]

    def MAC(self):
        return "00:00:00:00:00:01"

    def config(self, **params):
        self.link.params.update(params)
        return {}

    def ifconfig(self, *args):
        return self.node.cmd("ifconfig", self.name, *args)

    def setIP(self, ip, prefixLen=None):
        self.params["ip"] = ip if prefixLen is None or "/" in ip else "%s/%s" % (ip, prefixLen)
        return ""

    def isUp(self, setUp=False):
        return True

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class Link(object):
    shapes = False

    def __init__(self, node1, node2, port1=None, port2=None, intfName1=None, intfName2=None, **params):
        ends = [params.pop("params1", None) or {}, params.pop("params2", None) or {}]
        shaped = [params.pop("cls1", None), params.pop("cls2", None)]
        self.node1, self.node2, self.params, self.ends = node1, node2, params, ends
        self.shapes = self.shapes or any(cls and getattr(cls, "shapes", False) for cls in shaped + [params.get("intf")])
        for node, name, end in ((node1, intfName1, ends[0]), (node2, intfName2, ends[1])):
            index = len(node.intfs) + (0 if node.kind == "host" else 1)
            node.intfs[index] = Intf(name or "%s-eth%d" % (node.name, index), node, index, self, **end)
        self.intf1, self.intf2 = list(node1.intfs.values())[-1], list(node2.intfs.values())[-1]

    def stop(self):
        pass

    def delete(self):
        pass


class TCIntf(Intf):
    shapes = True


class TCLink(Link):
    shapes = True


class TCULink(TCLink):
    pass


class OVSLink(Link):
    pass


class Node(object):
    kind = "host"

    def __init__(self, name, inNamespace=True, **params):
        self.name, self.params, self.intfs, self.ip = name, params, {}, params.get("ip")
        self.start_lines, self.forwards, self.shell, self.pid, self.waiting = [], False, None, 1, False
        self.configuring = False

    def __str__(self):
        return self.name

    def __repr__(self):
        return "<%s %s>" % (type(self).__name__, self.name)

    def IP(self, intf=None):
        return (self.ip or "").split("/")[0]

    def MAC(self, intf=None):
        return "00:00:00:00:00:01"

    def setIP(self, ip, prefixLen=8, intf=None, **_kwargs):
        whole = ip if "/" in ip else "%s/%s" % (ip, prefixLen)
        chosen = next((i for i in self.intfs.values() if intf is not None and str(intf) == i.name), None)
        if chosen and chosen is not self.defaultIntf():
            chosen.params["ip"] = whole
        else:
            self.ip = whole
        return ""

    def setDefaultRoute(self, intf=None):
        text = str(intf or "")
        if "via" in text:
            self.params["defaultRoute"] = text
        return ""

    def setHostRoute(self, ip, intf):
        return self.cmd("ip route add %s dev %s" % (ip, intf))

    def cmd(self, *args, **kwargs):
        words = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        line = " ".join(str(word) for word in words)
        if re.search(r"ip_forward\s*=\s*1|echo\s+1\s*>.*ip_forward", line):
            self.forwards = True
        elif line and not self.configuring:
            commands.append((self, line))
        return ""

    cmdPrint = sendCmd = pexec_text = cmd

    def pexec(self, *args, **kwargs):
        return self.cmd(*args), "", 0

    def popen(self, *args, **kwargs):
        self.cmd(*args)
        return Process()

    def config(self, mac=None, ip=None, defaultRoute=None, lo="up", **params):
        return {}

    def terminate(self):
        pass

    def defaultIntf(self):
        return self.intfs[min(self.intfs)] if self.intfs else None

    def intf(self, intf=None):
        if intf is None:
            return self.defaultIntf()
        return next((i for i in self.intfs.values() if i.name == str(intf)), intf if isinstance(intf, Intf) else None)

    def intfList(self):
        return list(self.intfs.values())

    def intfNames(self):
        return [i.name for i in self.intfs.values()]

    def connectionsTo(self, node):
        pairs = ((i, i.link.intf2 if i.link.intf1 is i else i.link.intf1) for i in self.intfs.values())
        return [pair for pair in pairs if pair[1].node is node]

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class Host(Node):
    pass


class CPULimitedHost(Host):
    def setCPUFrac(self, f, *args, **kwargs):
        self.params["cpu"] = f

    def setCPUs(self, cores, *args, **kwargs):
        self.params["cores"] = cores


class NAT(Node):
    pass


class Switch(Node):
    kind = "switch"

    def dpctl(self, *args):
        note("OpenFlow rules not imported: switches learn addresses")
        return ""


class OVSSwitch(Switch):
    pass


class Controller(Node):
    kind = "controller"


class Process(object):
    returncode, pid, stdout, stderr, stdin = 0, 1, (), (), None

    def wait(self, *args, **kwargs):
        return 0

    poll = wait

    def communicate(self, *args, **kwargs):
        return "", ""

    def kill(self):
        pass

    terminate = kill

    def send_signal(self, *args):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *args):
        pass


# --- net


class Mininet(object):
    def __init__(self, topo=None, switch=OVSSwitch, host=Host, controller=Controller, link=Link, intf=Intf, build=True,
                 ipBase="10.0.0.0/8", autoStaticArp=False, **params):
        self.topo, self.switch, self.host, self.link, self.ipBase = topo, switch, host, link, ipBase
        self.intf, self.nodes_by_name, self.links, self.hosts, self.switches, self.controllers = intf, {}, [], [], [], []
        self.nextIP, self.finished, self.static_arp = 1, False, bool(autoStaticArp)
        self.nameToNode = self.nodes_by_name
        nets.append(self)
        if topo is not None and build:
            self.build()

    def build(self):
        if self.topo is None:
            return
        topo, self.topo = self.topo, None
        for name in topo.hosts():
            opts = dict(topo.nodeInfo(name))
            self.addHost(name, **opts)
        for name in topo.switches():
            opts = dict(topo.nodeInfo(name))
            opts.pop("isSwitch", None)
            self.addSwitch(name, **opts)
        for a, b, opts in topo.links(withInfo=True):
            self.addLink(a, b, **opts)

    def staticArp(self):
        self.static_arp = True

    def buildFromTopo(self, topo=None):
        self.topo = topo or self.topo
        self.build()

    def add(self, cls, fallback, name, params):
        try:
            node = cls(name, **params)
        except TypeError:
            node = fallback(name, **params)
        if not isinstance(node, Node):
            node = fallback(name, **params)
        self.nodes_by_name[name] = node
        return node

    def addHost(self, name, cls=None, **params):
        base, _, prefix = self.ipBase.partition("/")
        number = self.nextIP
        octets = [int(part) for part in base.split(".")]
        value = (octets[0] << 24 | octets[1] << 16 | octets[2] << 8 | octets[3]) + number
        self.nextIP += 1
        ip = ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0)) + "/" + (prefix or "8")
        known = cls or self.host
        node = self.add(known, Host, name, dict({"ip": ip}, **params))
        if isinstance(node, Switch):
            self.switches.append(node)
        else:
            self.hosts.append(node)
        return node

    def addSwitch(self, name, cls=None, **params):
        node = self.add(cls or self.switch, OVSSwitch, name, params)
        node.kind = "switch"
        self.switches.append(node)
        return node

    def addController(self, name="c0", controller=None, **params):
        node = Controller(name if isinstance(name, str) else "c%d" % len(self.controllers))
        self.nodes_by_name[node.name] = node
        self.controllers.append(node)
        return node

    def addNAT(self, name="nat0", connect=True, inNamespace=False, **params):
        note("NAT not imported: %s (a lab has no way to the outside)" % name)
        return NAT(name)

    def addLink(self, node1, node2, port1=None, port2=None, cls=None, **params):
        ends = [self.nodes_by_name.get(str(n), n) for n in (node1, node2)]
        if any(isinstance(end, NAT) for end in ends):
            return Anything()
        for end in ends:
            if str(end) not in self.nodes_by_name:
                raise KeyError("no node %s" % end)
        made = cls or self.link
        shapes = getattr(made, "shapes", None)
        if shapes is None:
            shapes = "tc" in str(getattr(made, "func", made)).lower()
            made = Link
            params.update(getattr(cls or self.link, "keywords", None) or {})
        if "intf" not in params and getattr(self.intf, "shapes", False):
            shapes = True
        link = Link(*ends, **params)
        link.shapes = bool(shapes or link.shapes)
        self.links.append(link)
        return link

    def delLink(self, link):
        self.links.remove(link)

    def delNode(self, node, nodes=None):
        self.nodes_by_name.pop(node.name, None)
        for group in (self.hosts, self.switches, self.controllers):
            if node in group:
                group.remove(node)

    delHost = delSwitch = delNode

    def get(self, *names):
        nodes = [self.nodes_by_name[name] for name in names]
        return nodes[0] if len(nodes) == 1 else nodes

    getNodeByName = get

    def __getitem__(self, name):
        return self.nodes_by_name[name]

    def __contains__(self, name):
        return name in self.nodes_by_name

    def __iter__(self):
        return iter(self.nodes_by_name)

    def __len__(self):
        return len(self.nodes_by_name)

    def keys(self):
        return list(self)

    def values(self):
        return list(self.nodes_by_name.values())

    def items(self):
        return list(self.nodes_by_name.items())

    def linksBetween(self, a, b):
        return [l for l in self.links if {l.node1, l.node2} == {a, b}]

    def start(self):
        self.build()

    def run(self, test, *args, **kwargs):
        self.start()
        return test(*args, **kwargs)

    def configLinkStatus(self, src, dst, status):
        note("link %s-%s %s not imported; at the prompt: link %s-%s %s" % (src, dst, status, src, dst, status))

    def stop(self):
        self.finished = True

    def pingAll(self, *args, **kwargs):
        self.finished = True
        return 0.0

    ping = pingPair = pingAll

    def pingFull(self, *args, **kwargs):
        return []

    pingAllFull = pingPairFull = pingFull

    def iperf(self, *args, **kwargs):
        return ["0 bits/sec", "0 bits/sec"]

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class MininetWithControlNet(Mininet):
    pass


def CLI(net=None, *args, **kwargs):
    if isinstance(net, Mininet):
        net.finished = True
    return Anything()


def quietRun(*args, **kwargs):
    note("not executed: %s" % " ".join(str(a) for a in args))
    return ""


def irange(start, end):
    return range(start, end + 1)


def customClass(classes, argument):
    return classes.get(str(argument).split(",")[0], Anything)


def specialClass(cls, prepend=None, append=None, defaults=None, override=None):
    return custom(cls, **(defaults or {}))


def custom(cls, **params):
    return type(cls.__name__, (cls,), {"__init__": lambda self, *a, **k: cls.__init__(self, *a, **dict(params, **k))})


def setLogLevel(*args):
    pass


info = error = warn = debug = output = lg = Anything()
dumpNodeConnections = dumpConnections = dumpNetConnections = dumpPorts = ensureRoot = cleanup = Anything()
OVSKernelSwitch = UserSwitch = OVSBridge = LinuxBridge = IVSSwitch = OVSSwitch
RemoteController = OVSController = DefaultController = NOX = Ryu = NullController = Controller


# --- the modules


class MininetModule(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        note("%s.%s is not known here; it has no effect" % (self.__name__, name))
        return Anything


class Finder:
    """Makes `mininet` and every module below it this file."""

    def find_spec(self, name, path=None, target=None):
        if name == "mininet" or name.startswith("mininet."):
            import importlib.machinery
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = MininetModule(spec.name)
        module.__dict__.update({k: v for k, v in globals().items() if not k.startswith("__")})
        # `mininet.net` and the like are modules, not names of this file.
        for key in ("net", "notes", "nets", "commands", "json", "os", "re", "sys", "time", "types", "resource"):
            module.__dict__.pop(key, None)
        module.__dict__.update(VERSION="2.3.0", time=time, os=os, re=re)
        return module

    def exec_module(self, module):
        pass


def forbid_effects():
    """Programs are not started, and nothing waits."""

    def refused(*args, **kwargs):
        command = args[0] if args else kwargs.get("args", "")
        text = command if isinstance(command, str) else " ".join(str(word) for word in command)
        note("not executed: %s" % text)

    def system(*args, **kwargs):
        refused(*args, **kwargs)
        return 0

    class Popen(Process):
        def __init__(self, *args, **kwargs):
            refused(*args, **kwargs)

    def run(*args, **kwargs):
        refused(*args, **kwargs)
        return subprocess.CompletedProcess(args, 0, "", "")

    def check_output(*args, **kwargs):
        refused(*args, **kwargs)
        return ""

    os.system, os.popen = system, lambda *args, **kwargs: refused(*args) or open(os.devnull)
    subprocess.call = subprocess.check_call = system
    subprocess.Popen, subprocess.run = Popen, run
    subprocess.check_output = subprocess.getoutput = check_output
    for name in ("execv", "execve", "execvp", "execvpe", "execl", "execlp", "kill", "killpg"):
        setattr(os, name, system)
    for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp"):
        setattr(os, name, Anything())
    time.sleep = lambda seconds: None
    os.geteuid = os.getuid = lambda: 0


# --- the result

TC_IGNORED = ("use_hfsc", "use_tbf", "use_htb", "enable_ecn", "enable_red", "speedup", "latency_ms", "gro", "txo", "rxo")
CONFIGURES = re.compile(r"^\s*(sudo\s+)?(sysctl|ip|ifconfig|route|arp|ethtool|tc|echo\s+\S+\s*>\s*/proc)\b")


def host_of(node, number):
    opts = {"hostname": node.name, "nodeNum": number}
    if node.ip:
        opts["ip"] = node.ip
    route = node.params.get("defaultRoute")
    if route:
        opts["defaultRoute"] = str(route).replace("via", "").strip()
    for key in ("cpu", "cores"):
        if node.params.get(key) is not None and not isinstance(node.params[key], Anything):
            opts[key] = node.params[key] if key == "cpu" else str(node.params[key])
    if node.params.get("privateDirs"):
        opts["privateDirectory"] = [str(d) for d in node.params["privateDirs"]]
    if node.start_lines:
        opts["startCommand"] = "; ".join(node.start_lines)
    for intf in list(node.intfs.values())[1:]:
        if intf.params.get("ip"):
            note("%s: the address %s of its other port is not imported" % (node.name, intf.params["ip"]))
    first = node.defaultIntf()
    if first is not None and first.params.get("ip"):
        opts["ip"] = first.params["ip"]
    return {"number": str(number), "opts": opts}


def switch_of(node, number):
    return {"number": str(number), "opts": {"hostname": node.name, "switchType": "ovs"}}


def router_of(node, number):
    lines = []
    for i, intf in enumerate(node.intfs.values()):
        address = intf.params.get("ip") or (node.ip if i == 0 else None)
        if intf.name != "%s-eth%d" % (node.name, i):
            note("%s is called %s-eth%d here" % (intf.name, node.name, i))
        if address:
            lines.append("ifconfig %s-eth%d %s" % (node.name, i, address))
    opts = {"hostname": node.name, "switchType": "legacyRouter"}
    if lines:
        opts["startCommand"] = "; ".join(lines)
    return {"number": str(number), "opts": opts}


def link_of(link):
    opts, name = {}, "%s-%s" % (link.node1.name, link.node2.name)
    for key in ("bw", "delay", "jitter", "loss", "max_queue_size"):
        value = link.params.get(key)
        for end in link.ends:
            if key in end:
                note("%s: %s of one end is imported for both directions" % (name, key))
                value = end[key]
        if value is not None:
            opts[key] = str(value) if key in ("delay", "jitter") else value
    for key in TC_IGNORED:
        if link.params.get(key):
            note("%s: %s not imported" % (name, key))
    if opts and not link.shapes:
        note("links without TCLink have parameters (%s): imported here, ignored by Mininet" % ", ".join(sorted(opts)))
    return {"src": link.node1.name, "dest": link.node2.name, "opts": opts}


def document(net):
    for node in net.values():
        node.configuring = True
        try:
            node.config(**node.params)
        except Exception:
            pass
    late = []
    for node, line in commands:
        if CONFIGURES.match(line) and node in net.hosts:
            node.start_lines.append(line)
        else:
            late.append("%s: %s" % (node.name, line))
    shown = late[:20] + (["and %d more" % (len(late) - 20)] if len(late) > 20 else [])
    for line in shown:
        note("command not imported: %s" % line)
    routers = [h for h in net.hosts if h.forwards]
    hosts = [h for h in net.hosts if not h.forwards]
    custom_kinds = {type(n).__name__ for n in hosts + net.switches
                    if type(n) not in (Host, Node, CPULimitedHost, OVSSwitch, Switch, NAT) and not n.forwards}
    if custom_kinds:
        note("custom nodes are ordinary hosts and switches here: %s" % ", ".join(sorted(custom_kinds)))
    for router in routers:
        note("%s forwards packets: imported as a router" % router.name)
    return {
        "version": "2",
        "application": {"ipBase": net.ipBase, "staticArp": "1" if net.static_arp else ""},
        "controllers": [{"opts": {"hostname": c.name}} for c in net.controllers],
        "hosts": [host_of(h, i) for i, h in enumerate(hosts, 1)],
        "switches": [switch_of(s, i) for i, s in enumerate(net.switches, 1)]
        + [router_of(r, 1000 + i) for i, r in enumerate(routers, 1)],
        "links": [link_of(l) for l in net.links],
    }


def argument(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return {"True": True, "False": False}.get(text, text)


BUILT_IN = {"minimal": MinimalTopo, "linear": LinearTopo, "reversed": SingleSwitchReversedTopo, "single": SingleSwitchTopo,
            "tree": TreeTopo, "torus": TorusTopo}


def topology(names, wanted):
    """The network of a topology in `topos`, or of a class, with the arguments after its name as `mn --topo` has them."""
    name, *rest = wanted.split(",")
    made = names.get(name)
    if made is None:
        known = sorted(key for key in names if key not in BUILT_IN)
        raise LookupError("no topology %s; there are %s" % (name, ", ".join(known) or "none"))
    args = [argument(a) for a in rest if "=" not in a]
    kwargs = {key: argument(value) for key, value in (a.split("=", 1) for a in rest if "=" in a)}
    net = Mininet(link=TCLink)
    net.topo = made(*args, **kwargs)
    net.build()
    return net


def read(program, wanted):
    failure, defined = None, {}
    sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
    sys.argv = [program]
    try:
        defined = runpy.run_path(program, run_name="__mn__" if wanted else "__main__")
    except SystemExit:
        pass
    except BaseException as caught:
        frames = [f for f in traceback.extract_tb(caught.__traceback__) if f.filename == program]
        at = caught.lineno if isinstance(caught, SyntaxError) else frames[-1].lineno if frames else 0
        failure = "line %s: %s: %s" % (at, type(caught).__name__, caught)
    ours = (Topo,) + tuple(BUILT_IN.values())
    classes = {k: v for k, v in defined.items() if isinstance(v, type) and issubclass(v, Topo) and v not in ours}
    own = dict(defined.get("topos") or {}) or classes
    filled = [net for net in nets if len(net) or net.topo is not None]
    if wanted:
        if failure:
            raise RuntimeError(failure)
        return topology(dict(BUILT_IN, **dict(classes, **own)), wanted)
    if filled:
        if failure:
            note("the program failed (%s); the network that it had built until then is imported" % failure)
        if len(filled) > 1:
            note("the program builds %d networks; the last is imported" % len(filled))
        filled[-1].build()
        return filled[-1]
    if failure:
        raise RuntimeError(failure)
    if len(own) == 1:
        return topology(own, list(own)[0])
    if own:
        raise LookupError("it defines several topologies; choose one with --topo: %s" % ", ".join(sorted(own)))
    raise LookupError("it builds no Mininet network and defines no topology")


def main():
    program, result, wanted = sys.argv[1], sys.argv[2], (sys.argv + [""])[3]
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_SECONDS, LIMIT_SECONDS))
    sys.meta_path.insert(0, Finder())
    forbid_effects()
    try:
        found = {"mn": document(read(program, wanted))}
    except BaseException as caught:
        found = {"error": str(caught) or type(caught).__name__}
    found["notes"] = notes
    with open(result, "w") as file:
        json.dump(found, file, default=str)
        file.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
