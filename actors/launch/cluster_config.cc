#include "actors/launch/cluster_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/base/name.h"
#include "core/base/units.h"
#include "core/config/nearest.h"

namespace weft::actors {
namespace {

std::vector<std::string> executables_in(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(directory, failed))
    if (entry.is_regular_file() && ::access(entry.path().c_str(), X_OK) == 0)
      names.push_back(entry.path().filename().string());
  return names;
}

std::filesystem::path find_app(const ConfigNode& node, const std::filesystem::path& directory) {
  const std::string app = node.as<std::string>();
  const bool own = app.find('/') != std::string::npos;
  const std::filesystem::path path = own ? node.as_path() : directory / app;
  std::error_code unreachable;  // a name that is too long, say: there is no such file
  if (std::filesystem::is_regular_file(path, unreachable) && ::access(path.c_str(), X_OK) == 0)
    return std::filesystem::absolute(path).lexically_normal();
  node.fail(fmt::format("app: there is no executable {}{}{}", path.string(),
                        own ? "" : " beside weft",
                        own ? "" : did_you_mean(app, executables_in(directory))));
}

/// Of at most 15 bytes, without what UCX's list of interfaces would take for more than one name.
bool is_interface(const std::string& name) {
  return !name.empty() && name.size() < 16 && name.find_first_of("/,: \t\n") == std::string::npos;
}

}  // namespace

ClusterConfig parse_cluster(const ConfigNode& section) {
  ClusterConfig config;
  section.read_enum(
      "launcher", config.launcher,
      EnumNames<LauncherKind>{{"local", LauncherKind::kLocal}, {"manual", LauncherKind::kManual}});
  section.read("threads_per_device", config.device.threads, {.min = 1, .max = 1024});
  section.read_enum(
      "device", config.device.kind,
      EnumNames<DeviceKind>{
          {"cpu", DeviceKind::kCpu}, {"cuda", DeviceKind::kCuda}, {"auto", DeviceKind::kAuto}});
  section.read("share_gpu", config.device.share_gpu);
  section.read("deterministic", config.device.deterministic);
  if (section.read_bytes("memory", config.memory) && config.memory != 0 &&
      config.memory < kLeastMemory)
    section.at("memory").note(
        fmt::format("cluster.memory: expected a size of at least {} for each device process, or 0 "
                    "for no limit, found {}",
                    format_bytes(kLeastMemory), format_bytes(config.memory)));
  section.read("no_progress", config.no_progress, {.min = std::chrono::milliseconds(100)});
  section.read("longest_op", config.longest_op);
  if (!config.device.deterministic && config.device.kind == DeviceKind::kCpu) {
    section.at("deterministic")
        .note(
            "cluster.deterministic: false lets GPUs add up in any order; with `device: cpu` there "
            "is nothing to gain: leave it "
            "out");
  }
  if (const auto hosts = section.find("hosts")) {
    config.hosts.clear();
    std::set<std::string> names;
    for (const ConfigNode& item : hosts->items()) {
      HostSpec host;
      item.require("name", host.name);
      item.read("devices", host.devices, {.min = 1, .max = 1024});
      if (double rate = 0; item.read_rate("link", rate)) host.link = rate;
      if (item.read("interface", host.interface) && !is_interface(host.interface))
        item.at("interface")
            .note(fmt::format("{}: expected the name of a network interface, such as eth1, found "
                              "'{}'",
                              item.at("interface").path(), host.interface));
      if (!host.name.empty() && !is_name(host.name))
        item.at("name").note(name_problem(item.at("name").path(), host.name));
      if (!names.insert(host.name).second)
        item.at("name").note(fmt::format("host '{}' is listed twice", host.name));
      config.hosts.push_back(std::move(host));
    }
    if (config.hosts.empty())
      hosts->note(
          "cluster.hosts: at least one host is needed, such as {name: worker0, devices: 1}");
  }
  section.finish();
  return config;
}

bool RecoveryConfig::is_spare(const std::string& host) const {
  return std::ranges::find(spares, host) != spares.end();
}

std::vector<std::string> RecoveryConfig::without_spares(const std::vector<HostSpec>& hosts) const {
  std::vector<std::string> names;
  for (const HostSpec& host : hosts)
    if (!is_spare(host.name)) names.push_back(host.name);
  return names;
}

RecoveryConfig parse_recovery(const ConfigNode& section, const std::vector<HostSpec>& hosts) {
  RecoveryConfig config;
  section.read("restarts", config.restarts, {.min = 0, .max = 1'000'000});
  section.read("within", config.within, {.min = std::chrono::seconds(1)});
  section.read("copy_every", config.copy_every, {.min = 0});
  section.read_enum("if_too_few", config.waits, EnumNames<bool>{{"wait", true}, {"fail", false}});
  std::vector<std::string> names;
  for (const HostSpec& host : hosts) names.push_back(host.name);
  if (const auto spares = section.find("spares")) {
    for (const ConfigNode& item : spares->items()) {
      const std::string name = item.as<std::string>();
      if (std::ranges::find(names, name) == names.end())
        item.note(fmt::format("{}: cluster.hosts has no host '{}', only {}{}", item.path(), name,
                              fmt::join(names, ", "), did_you_mean(name, names)));
      else if (config.is_spare(name)) item.note(fmt::format("host '{}' is listed twice", name));
      else config.spares.push_back(name);
    }
    if (!config.spares.empty() && config.spares.size() >= hosts.size())
      spares->note("recovery.spares: all hosts are spares, so no mesh can be placed");
  }
  section.finish();
  return config;
}

LogLevel parse_logs(const ConfigNode& section) {
  LogLevel level = LogLevel::kInfo;
  EnumNames<LogLevel> names;
  for (const LogLevel each :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError})
    names.emplace_back(to_string(each), each);
  section.read_enum("level", level, names);
  section.finish();
  return level;
}

RunHeader parse_run_header(const ConfigDocument& document, const std::filesystem::path& directory) {
  RunHeader header;
  const ConfigNode root = document.root();
  std::string problems;
  const auto part = [&](auto&& read) {
    try {
      read();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidConfig) throw;
      problems += (problems.empty() ? "" : "\n") + error.message();
    }
  };
  part([&] {
    const ConfigNode name = root.at("name");
    header.name = name.as<std::string>();
    if (!is_name(header.name)) name.fail(name_problem("name", header.name));
  });
  part([&] { header.app = find_app(root.at("app"), directory); });
  part([&] {
    if (const auto cluster = root.find("cluster")) header.cluster = parse_cluster(*cluster);
  });
  part([&] {
    if (const auto recovery = root.find("recovery"))
      header.recovery = parse_recovery(*recovery, header.cluster.hosts);
  });
  part([&] {
    if (const auto logs = root.find("logs")) header.log_level = parse_logs(*logs);
  });
  if (!problems.empty()) throw Error(ErrorCode::kInvalidConfig, problems);
  return header;
}

std::filesystem::path program_directory() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

}  // namespace weft::actors
