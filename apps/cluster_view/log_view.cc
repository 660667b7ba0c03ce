#include "apps/cluster_view/log_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/config/nearest.h"

namespace weft::apps {

std::string short_label(std::string_view label) {
  std::string text;
  bool inside = false, axis = false;
  for (const char letter : label) {
    if (letter == '[') inside = true;
    if (letter == '[' || letter == ',') axis = true;
    if (inside && axis && letter == '=') {
      // What was an axis is dropped.
      text.erase(text.find_last_of("[,") + 1);
      axis = false;
      continue;
    }
    text += letter;
  }
  return text;
}

std::vector<RunLog> find_logs(const actors::RunRecord& run, const std::string& wanted) {
  std::map<std::string, std::set<std::uint64_t>> epochs;  // by label
  std::set<std::string> names;
  for (const actors::RunDevice& device : run.devices) {
    epochs[device.label].insert(device.mesh.epoch);
    names.insert({device.label, device.mesh.name});
  }
  std::vector<RunLog> logs;
  if (run.detached()) {
    names.insert("driver");
    // "quickstart#2" was submitted as "quickstart".
    const actors::LogName name{
        {run.name.substr(0, run.name.find('#')), run.description.launch}, 0, true};
    if (wanted.empty() || wanted == "driver")
      logs.push_back({"driver", run.description.agent, name.file(), name});
  }
  for (const actors::RunDevice& device : run.devices) {
    const bool meant = wanted.empty() || wanted == device.mesh.name ||
                       short_label(wanted) == short_label(device.label);
    if (!meant) continue;
    std::string label = device.label;
    if (epochs[label].size() > 1) label += fmt::format(" (epoch {})", device.mesh.epoch);
    logs.push_back(
        {std::move(label), device.place.host, device.log_file, {device.mesh, device.rank}});
  }
  if (!logs.empty()) return logs;
  if (wanted.empty())
    throw_error(ErrorCode::kNotFound, "run '{}' has started no device process{}", run.name,
                run.ended() ? "" : " yet");
  throw_error(ErrorCode::kNotFound,
              "run '{}' has no device '{}'{}; weft status shows those that "
              "it has",
              run.name, wanted, did_you_mean(wanted, {names.begin(), names.end()}));
}

std::vector<std::string> LineCutter::add(std::string_view piece) {
  std::vector<std::string> lines;
  unfinished_ += piece;
  std::size_t begin = 0;
  for (std::size_t end; (end = unfinished_.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(unfinished_.substr(begin, end - begin));
  unfinished_.erase(0, begin);
  return lines;
}

std::vector<std::string> LineCutter::rest() {
  if (unfinished_.empty()) return {};
  return {std::exchange(unfinished_, "")};
}

}  // namespace weft::apps
