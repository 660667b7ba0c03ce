#include "apps/reshard_bench/bench_cluster.h"

#include <fmt/format.h>
#include <unistd.h>

namespace weft::apps {
namespace {

constexpr auto kHostsWithin = std::chrono::seconds(30);
constexpr auto kStopGrace = std::chrono::seconds(2);

std::string name_of(int host) { return fmt::format("host{}", host); }

}  // namespace

BenchCluster::BenchCluster(const Options& options) {
  if (!options.hosts_tool.empty())
    test_hosts_.emplace(TestHosts::Options{options.hosts_tool, fmt::format("bench.{}", ::getpid()), options.hosts, options.nics});
  actors::LocalCluster::Options local;
  local.executable = options.executable;
  local.directory = options.directory;
  std::vector<std::string> names;
  for (int i = 0; i < options.hosts; ++i) {
    names.push_back(name_of(i));
    local.hosts.push_back({names.back(), 1});
  }
  if (test_hosts_) {
    local.listen_host = test_hosts_->outer_address();
    local.wrap = [this](const std::string& host, const std::vector<std::string>& command) {
      return test_hosts_->command_on(std::stoi(host.substr(4)), command);
    };
  }
  processes_ = std::make_unique<actors::LocalCluster>(launcher_, std::move(local));
  actors::SystemOptions system;
  system.name = "weft bench reshard";
  system.log = Log::standard_error(LogLevel::kWarning);
  system.binary_hash = actors::own_binary_sha256();
  system.binary_name = options.executable.filename().string();
  system_ = std::make_unique<actors::System>(system);
  actors::ClusterOptions cluster;
  cluster.name = system.name;
  cluster.fate = actors::ClusterOptions::Fate::kOneMesh;
  cluster_ = std::make_unique<actors::Cluster>(*system_, processes_->head(), cluster);
  cluster_->wait_for_hosts(names, names.size(), kHostsWithin);
  hosts_.resize(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) restart(i);
}

void BenchCluster::restart(std::size_t index) {
  hosts_[index].reset();
  const std::string name = name_of(static_cast<int>(index));
  hosts_[index].emplace(cluster_->spawn<ReshardHost>("reshard_" + name, {{"host", 1}}, actors::OnHosts{{name}}));
}

BenchCluster::~BenchCluster() {
  hosts_.clear();
  cluster_.reset();
  system_.reset();
  launcher_.stop_all(kStopGrace);
}

std::string BenchCluster::address(std::size_t host, std::size_t nic) const {
  return test_hosts_ ? test_hosts_->address(static_cast<int>(host), static_cast<int>(nic)) : "127.0.0.1";
}

}  // namespace weft::apps
