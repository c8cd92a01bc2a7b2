// One TCP flow in ns-3, to compare what simulators cost: CPU seconds and data packets, while nothing is lost or in the
// recovery from the slow-start overshoot. Built and run by scripts/bench-ns3.sh.
//
//   bench SEGMENT_BYTES RTT_MS QUEUE_PACKETS BUFFER_BYTES open|recovery VIRTUAL_S CPU_S
//
// One link of 1 Gb/s, half of the round-trip time each way; cubic, SACK, window scaling, no initial limit but the buffer.
// Ends after so many virtual seconds, or CPU seconds spent in what is measured.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

using namespace ns3;

static uint64_t g_sent = 0;         // data packets that left the sender's device
static bool g_recovery = false;     // the sender's congestion state
static bool g_wantRecovery = false; // what is measured
static double g_budget = 0, g_lastCpu = 0, g_cpu = 0;
static uint64_t g_lastSent = 0, g_packets = 0;
static bool g_warm = false;

static double
Cpu()
{
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void
Sent(Ptr<const Packet> packet)
{
    g_sent += packet->GetSize() > 200; // ACKs are smaller
}

static void
State(TcpSocketState::TcpCongState_t, TcpSocketState::TcpCongState_t now)
{
    g_recovery = now == TcpSocketState::CA_RECOVERY;
}

static void
Look()
{
    double cpu = Cpu();
    if (g_warm && g_recovery == g_wantRecovery)
    {
        g_cpu += cpu - g_lastCpu;
        g_packets += g_sent - g_lastSent;
    }
    g_lastSent = g_sent;
    if (g_cpu > g_budget)
    {
        Simulator::Stop();
        return;
    }
    Simulator::Schedule(MilliSeconds(1), &Look);
    g_lastCpu = Cpu();
}

static void
Warm()
{
    g_warm = true;
}

static void
Watch(Ptr<Application> source)
{
    Ptr<Socket> socket = DynamicCast<BulkSendApplication>(source)->GetSocket();
    socket->TraceConnectWithoutContext("CongState", MakeCallback(&State));
}

int
main(int argc, char** argv)
{
    if (argc != 8)
    {
        std::fprintf(stderr, "see the head of bench.cc\n");
        return 2;
    }
    uint32_t segment = std::atoi(argv[1]);
    double rttMs = std::atof(argv[2]);
    std::string queue = std::string(argv[3]) + "p";
    uint32_t buffer = std::atoi(argv[4]);
    g_wantRecovery = std::string(argv[5]) == "recovery";
    double seconds = std::atof(argv[6]);
    g_budget = std::atof(argv[7]);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpCubic::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(segment));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(buffer));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(buffer));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
    // The overshoot is wanted: no early end of slow start.
    Config::SetDefault("ns3::TcpCubic::HyStart", BooleanValue(!g_wantRecovery));

    NodeContainer nodes(2);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue("1Gbps"));
    link.SetDeviceAttribute("Mtu", UintegerValue(segment + 60));
    link.SetChannelAttribute("Delay", TimeValue(MicroSeconds(static_cast<int64_t>(rttMs * 500))));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue(queue));
    NetDeviceContainer devices = link.Install(nodes);
    InternetStackHelper().Install(nodes);
    // Without a queue discipline above the device, whose queue is the link's.
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
    TrafficControlHelper().Uninstall(devices);

    BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(interfaces.GetAddress(1), 9));
    ApplicationContainer source = bulk.Install(nodes.Get(0));
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9));
    ApplicationContainer receiver = sink.Install(nodes.Get(1));
    devices.Get(0)->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&Sent));
    Simulator::Schedule(MilliSeconds(1), &Watch, source.Get(0));
    // What is loss-free is measured when the window is open.
    Simulator::Schedule(Seconds(g_wantRecovery ? 0.0 : 2.0), &Warm);
    Simulator::Schedule(MilliSeconds(1), &Look);
    g_lastCpu = Cpu();
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    double mbits = DynamicCast<PacketSink>(receiver.Get(0))->GetTotalRx() * 8e-6 / Simulator::Now().GetSeconds();
    std::printf("packets %lu cpu_s %.3f goodput_mbps %.1f virtual_s %.2f\n", g_packets, g_cpu, mbits, Simulator::Now().GetSeconds());
    Simulator::Destroy();
    return 0;
}
