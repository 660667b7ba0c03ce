#include "apps/bench/test_cluster.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cmath>

#include "core/base/error.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

constexpr auto kHostsWithin = std::chrono::seconds(30);
constexpr auto kStopGrace = std::chrono::seconds(2);

}  // namespace

std::string TestCluster::host_name(std::size_t host) { return fmt::format("host{}", host); }

TestCluster::TestCluster(const Options& options) {
  if (!options.hosts_tool.empty())
    test_hosts_.emplace(TestHosts::Options{options.hosts_tool, fmt::format("bench.{}", ::getpid()),
                                           options.hosts, options.nics});
  actors::LocalCluster::Options local;
  const Secret token = Secret::random();
  local.token = token;
  local.executable = options.executable;
  local.directory = options.directory;
  std::vector<std::string> names;
  for (int i = 0; i < options.hosts; ++i) {
    names.push_back(host_name(i));
    local.hosts.push_back({names.back(), options.devices_per_host});
  }
  if (test_hosts_) {
    local.listen_host = test_hosts_->outer_address();
    local.wrap = [this](const std::string& host, const std::vector<std::string>& command) {
      return test_hosts_->command_on(std::stoi(host.substr(4)), command);
    };
  }
  processes_ = std::make_unique<actors::LocalCluster>(launcher_, std::move(local));
  actors::SystemOptions system;
  system.name = options.name;
  system.token = token;
  system.log = Log::standard_error(LogLevel::kWarning);
  system.binary_hash = actors::own_binary_sha256();
  system.binary_name = options.executable.filename().string();
  system_ = std::make_unique<actors::System>(system);
  actors::ClusterOptions cluster;
  cluster.name = system.name;
  cluster.failure_scope = options.failure_scope;
  cluster_ = std::make_unique<actors::Cluster>(*system_, processes_->head(), cluster);
  cluster_->wait_for_hosts(names, names.size(), kHostsWithin);
}

TestCluster::~TestCluster() {
  cluster_.reset();
  system_.reset();
  launcher_.stop_all(kStopGrace);
}

void TestCluster::replace_head() {
  launcher_.signal(processes_->head_pid(), SIGKILL);
  processes_->restart_head(system_->token());
}

std::string TestCluster::address(std::size_t host, std::size_t nic) const {
  return test_hosts_ ? test_hosts_->address(host, nic) : "127.0.0.1";
}

std::uint64_t parse_link_rate(const std::string& option, const std::string& text) {
  const auto rate = parse_rate(text);
  if (!rate)
    throw_error(ErrorCode::kInvalidArgument, "{} {}: write 250mbit or 1gbit", option, text);
  return std::llround(*rate * 8);
}

}  // namespace weft::apps
