// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/ids.h"
#include "engine/base/result.h"
#include "engine/base/units.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::cluster {

/// The figures of a device type. Rates are nominal; engine/cost turns them into times.
struct DeviceType {
    std::string name;                        ///< "V100", "H100-SXM", "CPU"
    std::map<std::string, double> peakFlops; ///< FLOP/s by dtype name ("float32", "bfloat16"); at least float32
    Bytes memory;                            ///< per device
    double memoryBandwidth = 0;              ///< bytes/s

    [[nodiscard]] bool isProcessor() const { return name.starts_with("CPU"); }
};

/// A GPU or a CPU device.
struct Device {
    DeviceId id;
    std::string name; ///< "n0:g3"
    NodeId node;
    std::size_t type = 0; ///< index into Cluster::types()
};

/// How a run reaches a machine by ssh, and how many ranks it takes. Everything is optional; the prediction uses none of
/// it.
struct Host {
    std::string address; ///< host name or IP address; empty: not known
    std::string user;    ///< empty: as ssh has it
    int port = 0;        ///< 0: as ssh has it
    int ranks = 0;       ///< most ranks; 0: one for each device

    bool operator==(const Host &) const = default;
};
/// Whether @p text can be an address (a host name, an IPv4 or IPv6 address) or a user's name: letters, digits and
/// "._-:" (users: without ":"), no "-" in front, at most 253 and 32 characters. What passes is safe as an argument of
/// ssh.
bool isAddress(std::string_view text);
bool isUserName(std::string_view text);
inline constexpr int kMostPort = 65535;

/// A machine.
struct Node {
    NodeId id;
    std::string name;
    std::vector<DeviceId> devices; ///< consecutive ids
    int cores = 0;                 ///< processor cores that its CPU devices compute on (cores.h); 0: one for each
    Host host;
};

/// An end of a link: a device, or something between devices (NVSwitch, PCIe switch, NIC, network switch).
struct Vertex {
    enum class Kind : std::uint8_t { Device, Switch, Nic, Network };
    Kind kind = Kind::Switch;
    std::string name;
    DeviceId device; ///< Kind::Device only
    NodeId node;     ///< none for Kind::Network
};

/// Between two vertices, with the rates that large messages reach.
struct Link {
    enum class Kind : std::uint8_t { NvLink, Pcie, Network, Memory };
    Kind kind = Kind::Network;
    std::size_t a = 0; ///< index into vertices()
    std::size_t b = 0;
    double pointToPoint = 0; ///< effective bytes/s of one transfer, per direction
    double collective = 0;   ///< effective bytes/s of a ring over this link
    Seconds latency;
    bool fullDuplex = true;
};

/// How the time of communication follows from the links.
enum class CommModel : std::uint8_t {
    Links,    ///< load of each link on the routes taken, the busiest one counts
    TwoLevel, ///< the effective-bandwidth rules of the DAPPLE release: inside a machine / between machines
};

/// The three figures of CommModel::TwoLevel (bytes/s).
struct TwoLevelRates {
    double intraNode = 0;
    double interPointToPoint = 0;
    double interCollective = 0;
};

/// How to get from vertex to vertex. Blocks are the largest parts without a vertex that all ways between two others go
/// through: a link that is part of no cycle, a machine with a port per device and the network behind them. They hang
/// together as a tree, so that only the ways within each have a table: 65,536 devices on switches cost 3 MB, not 17 GB.
/// Depth counts blocks from the root, the vertex with most links.
struct Routes {
    std::vector<std::int32_t> block; ///< per vertex: the one towards the root; -1: the root, or nothing is linked to it
    std::vector<std::int32_t> depth; ///< per vertex
    std::vector<std::int32_t> place; ///< per vertex: in its block, from 1 on
    std::vector<std::int32_t> top;   ///< per block: the vertex nearest the root, its place is 0
    std::vector<std::int32_t> size;  ///< per block: vertices
    std::vector<std::size_t> table;  ///< per block: where its ways begin in nextLink
    std::vector<std::int32_t> nextLink; ///< per block [target place][place]: link towards the target

    /// Identical parts (shape.h): blocks of one kind can be laid over each other so that vertices of one role meet, and
    /// so that equal legs change places.
    std::vector<std::int32_t> kind; ///< per block
    std::vector<std::int32_t> role; ///< per vertex, in its block
    std::vector<std::int32_t> leg;  ///< per vertex: the chain of vertices between two corners of its block that it is
                                    ///< on, numbered through; -1: none
    std::int32_t legs = 0;
};

/// Nodes, devices and the links between them. Immutable; made by ClusterBuilder, which checks it.
class Cluster {
public:
    [[nodiscard]] const std::string &name() const { return m_name; }
    [[nodiscard]] std::span<const DeviceType> types() const { return m_types; }
    [[nodiscard]] std::span<const Node> nodes() const { return m_nodes; }
    [[nodiscard]] std::span<const Device> devices() const { return m_devices; }
    [[nodiscard]] std::span<const Vertex> vertices() const { return m_vertices; }
    [[nodiscard]] std::span<const Link> links() const { return m_links; }
    [[nodiscard]] const Device &device(DeviceId id) const { return m_devices[id.index()]; }
    [[nodiscard]] const DeviceType &typeOf(DeviceId id) const { return m_types[m_devices[id.index()].type]; }
    [[nodiscard]] DeviceId find(std::string_view deviceName) const; ///< invalid if there is none
    [[nodiscard]] CommModel commModel() const { return m_commModel; }
    [[nodiscard]] const TwoLevelRates &twoLevel() const { return m_twoLevel; }
    [[nodiscard]] bool fullDuplex() const; ///< true if every link is

    /// Index into vertices() of the device's own vertex.
    [[nodiscard]] std::size_t vertexOf(DeviceId id) const { return m_deviceVertices[id.index()]; }

    /// Links from @p from to @p to (indices into links()), the fewest; among equals those whose narrowest link is
    /// widest, then the lowest index. Empty if from == to. Cost: O(route length); routes are computed at build.
    [[nodiscard]] std::vector<std::size_t> route(DeviceId from, DeviceId to) const;
    /// The tables behind route(), for loops over many pairs (routes.h).
    [[nodiscard]] const Routes &routes() const { return m_routes; }

private:
    friend class ClusterBuilder;
    std::string m_name;
    std::vector<DeviceType> m_types;
    std::vector<Node> m_nodes;
    std::vector<Device> m_devices;
    std::vector<Vertex> m_vertices;
    std::vector<Link> m_links;
    CommModel m_commModel = CommModel::Links;
    TwoLevelRates m_twoLevel;
    std::vector<std::size_t> m_deviceVertices;
    std::vector<std::int32_t> m_devicesByName; ///< sorted by name
    Routes m_routes;
};

inline constexpr std::size_t kMostDevices = 65536;

/// Puts a cluster together. Ids count from 0 in the order of the calls.
class ClusterBuilder {
public:
    explicit ClusterBuilder(std::string name);
    std::size_t type(DeviceType type);
    NodeId node(std::string name, int cores = 0, Host host = {});
    DeviceId device(NodeId node, std::size_t type, std::string name = {}); ///< default name "n<node>:g<index>"
    std::size_t vertexOf(DeviceId device) const;
    std::size_t vertex(Vertex vertex);
    void link(Link link);
    void twoLevel(TwoLevelRates rates); ///< switches to CommModel::TwoLevel
    /// Errors (BadInput): no devices, more than kMostDevices, duplicate names, a node's devices not added one after the
    /// other, non-positive or non-finite figures, devices that cannot reach each other, a mesh too large for a routing
    /// table, a negative number of cores, a host that ssh cannot reach or fewer slots than devices, two nodes of one
    /// address and port.
    Result<Cluster> build() &&;

private:
    Cluster m_cluster;
};

/// Regular clusters: @p nodes machines of @p perNode devices, a switch inside each, one NIC each into one network.
struct RegularCluster {
    std::string name;
    int nodes = 1;
    int perNode = 1;
    DeviceType type;
    double intraBandwidth = 0;
    Seconds intraLatency{5e-6};
    double interPointToPoint = 0;
    double interCollective = 0;
    Seconds interLatency{2e-5};
    bool fullDuplex = true;
    bool twoLevelRules = false;
};
Result<Cluster> regular(const RegularCluster &spec);

/// dapple-a, dapple-b, dapple-c (16 V100), pipedream-4x4, h100-8, ... Error: NotFound that lists the names.
Result<Cluster> preset(std::string_view name);
std::vector<std::string> presetNames();
/// V100, A100, H100-SXM ... with public figures. nullptr if unknown.
const DeviceType *knownDeviceType(std::string_view name);
std::vector<std::string> knownDeviceTypeNames();

/// Native JSON (`planloom.cluster/1`, resources/docs/formats/cluster.md).
/// @p hosts: with how nodes are reached, which changes no prediction.
std::string toJson(const Cluster &cluster, bool hosts = true);
Result<Cluster> clusterFromJson(std::string_view text);

} // namespace planloom::cluster
