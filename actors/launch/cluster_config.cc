#include "actors/launch/cluster_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>

#include "actors/head/actor_messages.h"
#include "actors/launch/host_capacity.h"
#include "core/base/error.h"
#include "core/base/name.h"
#include "core/base/nearest.h"
#include "core/base/units.h"
#include "core/config/config_sections.h"

namespace weft::actors {
namespace {

/// Keys of `cluster:` that ReadDeviceKeys reads.
constexpr std::array kDeviceKeys = {"device", "share_gpu", "deterministic"};

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
  std::error_code unreachable;  // e.g. the name is too long: there is no such file
  if (std::filesystem::is_regular_file(path, unreachable) && ::access(path.c_str(), X_OK) == 0)
    return std::filesystem::absolute(path).lexically_normal();
  const std::string build = own ? "" : build_hint(directory, "weft_apps_" + app);
  if (!build.empty()) node.fail(fmt::format("app: {} does not exist{}", path.string(), build));
  node.fail(fmt::format("app: there is no executable {}{}{}", path.string(),
                        own ? "" : " beside weft",
                        own ? "" : did_you_mean(app, executables_in(directory))));
}

/// Accepts at most 15 bytes, without characters that separate names in UCX's list of interfaces.
bool is_interface(const std::string& name) {
  return !name.empty() && name.size() < 16 && name.find_first_of("/,: \t\n") == std::string::npos;
}

/// Records problems.
void parse_capacity(const ConfigNode& item, HostCapacity& capacity) {
  if (double cpus = 0; item.read("cpus", cpus,
                                 KeyDescription("Processors of the host for actors that need some")
                                     .unit("processors")
                                     .by_default("those that its agent may use"),
                                 {.min = 0.001, .max = 1e6}))
    capacity.cpus = cpus;
  item.read_bytes("memory", capacity.memory,
                  KeyDescription("Memory of the host for actors that need some")
                      .by_default("that of its machine"),
                  {.min = 1});
  if (const auto resources =
          item.find("resources", KeyDescription("Other resources of the host, by name")))
    for (const auto& [name, value] :
         resources->entries("NAME", KeyDescription("Number of these, such as 2"))) {
      const double number = value.as<double>();
      if (value.is_outline()) continue;
      if (const std::string problem = resource_problem(name, number); !problem.empty())
        value.record_problem(fmt::format("{}: {}", value.path(), problem));
      capacity.custom[name] = number;
    }
  if (const auto labels =
          item.find("labels", KeyDescription("Labels of the host, by which actors are placed")))
    for (const auto& [key, value] :
         labels->entries("KEY", KeyDescription("Value of the label, such as a"))) {
      const auto text = value.as<std::string>();
      if (value.is_outline()) continue;
      if (const std::string problem = label_problem(key, text); !problem.empty())
        value.record_problem(fmt::format("{}: {}", value.path(), problem));
      capacity.labels[key] = text;
    }
}

HostSpec parse_host(const ConfigNode& item) {
  HostSpec host;
  item.require("name", host.name, "Name of the host, as in weft join --name");
  item.read("devices", host.devices,
            KeyDescription("Devices of the host: a process each; 0: it carries only actors without "
                           "devices")
                .unit("devices"),
            {.min = 0, .max = 1024});
  if (double rate = 0;
      item.read_rate("link", rate,
                     KeyDescription("Bandwidth of the host's network, each way; a run that "
                                    "measures another one plans anew")
                         .by_default("10gbit")))
    host.link = rate;
  if (item.read(
          "interface", host.interface,
          KeyDescription("The network interface that carries the host's tensors, such as eth1")
              .by_default("the one by which it reaches the head")) &&
      !is_interface(host.interface))
    item.at("interface")
        .record_problem(
            fmt::format("{}: expected the name of a network interface, such as eth1, found '{}'",
                        item.at("interface").path(), host.interface));
  parse_capacity(item, host.capacity);
  if (!host.name.empty() && !is_name(host.name))
    item.at("name").record_problem(invalid_name_message(item.at("name").path(), host.name));
  return host;
}

/// Records problems; the section's finish() throws them.
std::vector<HostSpec> parse_hosts(const ConfigNode& list) {
  std::vector<HostSpec> hosts;
  std::set<std::string> names;
  for (const ConfigNode& item : list.items()) {
    hosts.push_back(parse_host(item));
    if (!names.insert(hosts.back().name).second)
      item.at("name").record_problem(fmt::format("host '{}' is listed twice", hosts.back().name));
  }
  if (hosts.empty())
    list.record_problem(
        "cluster.hosts: at least one host is needed, such as {name: worker0, devices: 1}");
  return hosts;
}

}  // namespace

ClusterConfig parse_cluster(const ConfigNode& section, const ReadDeviceKeys& read_device) {
  ClusterConfig config;
  section.read_enum(
      "launcher", config.launcher,
      EnumNames<LauncherKind>{{"local", LauncherKind::kLocal}, {"manual", LauncherKind::kManual}},
      "local: weft run starts all hosts on this machine; manual: start them with weft head and "
      "weft join");
  section.read("threads_per_device", config.threads_per_device,
               KeyDescription("CPU threads that a device computes with").unit("threads"),
               {.min = 1, .max = 1024});
  if (read_device) read_device(section);
  else
    for (const char* key : kDeviceKeys) section.exclude_key(key);
  if (section.read_bytes("memory", config.memory,
                         "Memory limit of each device process; a process that exceeds it ends with "
                         "an error; 0: no limit") &&
      config.memory != 0 && config.memory < kLeastMemory)
    section.at("memory").record_problem(
        fmt::format("cluster.memory: expected a size of at least {} for each device process, or 0 "
                    "for no limit, found {}",
                    format_bytes(kLeastMemory), format_bytes(config.memory)));
  section.read_bytes(
      "objects", config.objects,
      "Memory of each host for objects (mesh::Objects); further ones go to disk; 0: a "
      "quarter of the available memory");
  section.read("no_progress", config.no_progress,
               "Time without progress after which the run reports where it waits (and continues)",
               {.min = std::chrono::milliseconds(100)});
  section.read("longest_op", config.longest_op,
               "Time limit of one operation; a longer one ends the run; default: no limit");
  if (const auto hosts = section.find("hosts", "Hosts of the cluster, in order"))
    config.hosts = parse_hosts(*hosts);
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
  section.read("restarts", config.restarts,
               KeyDescription("Deaths of processes that the run survives; 0: the first one ends it")
                   .unit("deaths"),
               {.min = 0, .max = 1'000'000});
  section.read("within", config.within, "The time in which recovery.restarts are counted",
               {.min = std::chrono::seconds(1)});
  section.read(
      "copy_every", config.copy_every,
      KeyDescription("How often the state is copied into the memory of other hosts; 0: never, "
                     "recovery uses checkpoints alone")
          .unit("steps"),
      {.min = 0});
  section.read_enum("if_too_few", config.waits, EnumNames<bool>{{"wait", true}, {"fail", false}},
                    "Behaviour while too few devices are left: wait or fail");
  std::vector<std::string> names;
  for (const HostSpec& host : hosts) names.push_back(host.name);
  if (const auto spares = section.find(
          "spares", KeyDescription("Hosts that no mesh uses until another host is lost")
                        .type("list of names of cluster.hosts"))) {
    for (const ConfigNode& item : spares->items()) {
      const std::string name = item.as<std::string>();
      if (std::ranges::find(names, name) == names.end())
        item.record_problem(fmt::format("{}: cluster.hosts has no host '{}', only {}{}",
                                        item.path(), name, fmt::join(names, ", "),
                                        did_you_mean(name, names)));
      else if (config.is_spare(name))
        item.record_problem(fmt::format("host '{}' is listed twice", name));
      else config.spares.push_back(name);
    }
    if (!config.spares.empty() && config.spares.size() >= hosts.size())
      spares->record_problem("recovery.spares: all hosts are spares, so no mesh can be placed");
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
  section.read_enum("level", level, names, "Minimum log level of all processes");
  section.finish();
  return level;
}

std::optional<ConfigNode> cluster_section(const ConfigNode& root) {
  return root.find("cluster", "The hosts, and what devices compute on");
}

std::optional<ConfigNode> recovery_section(const ConfigNode& root) {
  return root.find("recovery", "What the run does after a death");
}

std::optional<ConfigNode> logs_section(const ConfigNode& root) {
  return root.find("logs", "Logging of the run's processes");
}

std::string read_run_name(const ConfigNode& root) {
  const ConfigNode node =
      root.at("name", "Name of the run, in weft status and in the path of its results");
  auto name = node.as<std::string>();
  if (root.is_outline()) return name;
  if (!is_name(name)) node.fail(invalid_name_message("name", name));
  if (name == kKeeperName)
    node.fail(
        fmt::format("name: '{}' stands for the actors that outlive runs, as in '{}/hits'; "
                    "give the run another name",
                    name, name));
  return name;
}

ConfigNode app_of_run(const ConfigNode& root) {
  return root.at("app",
                 "The program: gpt, u_transformer, classifier, select, or the path of your own");
}

RunHeader parse_run_header(const ConfigDocument& document, const std::filesystem::path& directory,
                           const ReadDeviceKeys& read_device) {
  RunHeader header;
  const ConfigNode root = document.root();
  ConfigSections sections(root);
  sections.read([&] { header.name = read_run_name(root); });
  sections.read([&] {
    const ConfigNode app = app_of_run(root);
    if (root.is_outline()) (void)app.as<std::string>();
    else header.app = find_app(app, directory);
  });
  sections.read([&] {
    if (const auto cluster = cluster_section(root))
      header.cluster = parse_cluster(*cluster, read_device);
  });
  sections.read([&] {
    if (const auto recovery = recovery_section(root))
      header.recovery = parse_recovery(*recovery, header.cluster.hosts);
  });
  sections.read([&] {
    if (const auto logs = logs_section(root)) header.log_level = parse_logs(*logs);
  });
  sections.finish();
  return header;
}

std::string build_hint(const std::filesystem::path& directory, const std::string& target) {
  const std::filesystem::path build = directory.parent_path();
  if (!std::filesystem::exists(build / "apps" / "CMakeFiles" / (target + ".dir"))) return "";
  return fmt::format("; it has not been built yet: cmake --build {} --target {}", build.string(),
                     target);
}

std::filesystem::path program_directory() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

}  // namespace weft::actors
