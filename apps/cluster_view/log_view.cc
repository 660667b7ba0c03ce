#include "apps/cluster_view/log_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/nearest.h"

namespace weft::apps {
namespace {

/// Returns the log name that the agent gave to a device process. A process that continues in a
/// later epoch of its mesh keeps writing its first log.
actors::LogId log_of(const actors::RunDevice& device) {
  actors::LogId name{device.mesh, device.rank};
  const std::string file = std::filesystem::path(device.log_file).filename().string();
  // The log of a shared process is that of its own mesh of one.
  const bool is_shared = is_shared_process(device);
  const std::string end = fmt::format(".r{}.log", is_shared ? 0 : device.rank);
  const std::string mesh = file.substr(0, file.size() - std::min(file.size(), end.size()));
  const auto dot = mesh.rfind('.');
  if (is_shared) name.rank = 0;
  if (file.ends_with(end) && dot != std::string::npos && dot + 1 < mesh.size() &&
      mesh.find_first_not_of("0123456789", dot + 1) == std::string::npos)
    name.mesh = actors::MeshKey::of_text(mesh);
  return name;
}

}  // namespace

bool is_shared_process(const actors::RunDevice& device) {
  return std::filesystem::path(device.log_file)
      .filename()
      .string()
      .starts_with(std::string(actors::kSharedProcessName) + ".");
}

std::string short_label(std::string_view label) {
  std::string text;
  bool inside = false, axis = false;
  for (const char letter : label) {
    if (letter == '[') inside = true;
    if (letter == '[' || letter == ',') axis = true;
    if (inside && axis && letter == '=') {
      // Drops the axis name before '='.
      text.erase(text.find_last_of("[,") + 1);
      axis = false;
      continue;
    }
    text += letter;
  }
  return text;
}

std::vector<RunLog> find_logs(const actors::RunRecord& run, const std::string& wanted) {
  std::map<std::string, std::set<actors::LogId>> logs_of;  // key: label
  std::set<std::string> names;
  for (const actors::RunDevice& device : run.devices) {
    logs_of[device.label].insert(log_of(device));
    names.insert({device.label, device.mesh.name});
  }
  std::vector<RunLog> logs;
  if (run.detached()) {
    names.insert("driver");
    // Drops the suffix of a second run: "quickstart#2" was submitted as "quickstart".
    const actors::LogId name{
        {run.name.substr(0, run.name.find('#')), run.description.launch}, 0, true};
    if (wanted.empty() || wanted == "driver")
      logs.push_back({"driver", run.description.agent, name.file(), name});
  }
  for (const actors::RunDevice& device : run.devices) {
    const bool meant = wanted.empty() || wanted == device.mesh.name ||
                       short_label(wanted) == short_label(device.label);
    const actors::LogId name = log_of(device);
    const bool known = std::ranges::find(logs, name, &RunLog::name) != logs.end();
    if (!meant || known) continue;
    std::string label = device.label;
    // All logs of a run name each process once.
    if (wanted.empty() && is_shared_process(device))
      label = "shared process on " + device.place.host;
    else if (logs_of[label].size() > 1) label += fmt::format(" (epoch {})", name.mesh.epoch);
    logs.push_back({std::move(label), device.place.host, device.log_file, name});
  }
  if (!logs.empty()) return logs;
  if (wanted == "driver")
    throw_error(
        ErrorCode::kNotFound,
        "the driver of run '{}' writes to the terminal of its weft run; only runs that were "
        "started with --detach have a log of it",
        run.name);
  if (wanted.empty())
    throw_error(ErrorCode::kNotFound, "run '{}' has started no device process{}", run.name,
                run.ended() ? "" : " yet");
  throw_error(ErrorCode::kNotFound,
              "run '{}' has no device '{}'{}; weft status shows those that it has", run.name,
              wanted, did_you_mean(wanted, {names.begin(), names.end()}));
}

std::vector<std::string> LineSplitter::add(std::string_view piece) {
  std::vector<std::string> lines;
  unfinished_ += piece;
  std::size_t begin = 0;
  for (std::size_t end; (end = unfinished_.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(unfinished_.substr(begin, end - begin));
  unfinished_.erase(0, begin);
  return lines;
}

std::vector<std::string> LineSplitter::take_incomplete() {
  if (unfinished_.empty()) return {};
  return {std::exchange(unfinished_, "")};
}

}  // namespace weft::apps
