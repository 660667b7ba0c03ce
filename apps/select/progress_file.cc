#include "apps/select/progress_file.h"

#include <fmt/format.h>

#include <fstream>
#include <utility>

#include "core/base/durable_file.h"
#include "core/base/error.h"

namespace weft::apps {
namespace {

nlohmann::ordered_json to_json(const SelectionProgress& progress) {
  return {{"bounding_steps", progress.decided},
          {"step_seconds", progress.step_seconds},
          {"bounding_done", progress.bounding_done},
          {"round", progress.round},
          {"rounds", rounds_json(progress.rounds)}};
}

SelectionProgress progress_of(const nlohmann::ordered_json& json) {
  SelectionProgress progress;
  progress.decided = json.at("bounding_steps").get<std::vector<std::uint64_t>>();
  progress.step_seconds = json.at("step_seconds").get<std::vector<double>>();
  progress.bounding_done = json.at("bounding_done").get<bool>();
  progress.round = json.at("round").get<std::uint32_t>();
  for (const auto& round : json.at("rounds"))
    progress.rounds.push_back(
        {round.at("partitions").get<std::uint32_t>(), round.at("largest").get<std::uint64_t>(),
         round.at("points").get<std::uint64_t>(), round.at("seconds").get<double>()});
  return progress;
}

}  // namespace

nlohmann::ordered_json rounds_json(const std::vector<RoundResult>& rounds) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const RoundResult& round : rounds)
    json.push_back({{"partitions", round.partitions},
                    {"largest", round.largest},
                    {"points", round.points},
                    {"seconds", round.seconds}});
  return json;
}

ProgressFile::ProgressFile(const std::filesystem::path& folder) : path_(folder / "progress.json") {
  std::ifstream stream(path_);
  if (!stream) return;
  try {
    json_ = nlohmann::ordered_json::parse(stream);
    (void)json_.get_ref<const nlohmann::ordered_json::object_t&>();  // throws for an array or value
    graph();
    if (json_.contains("selection")) selection(json_.at("digest").get<std::string>());
  } catch (const nlohmann::json::exception&) {
    throw_error(ErrorCode::kDataLoss,
                "{} is damaged: it has no progress of the selection; remove it to start again",
                path_.string());
  }
}

GraphProgress ProgressFile::graph() const {
  if (!json_.contains("graph")) return {};
  const nlohmann::ordered_json& json = json_.at("graph");
  return {json.at("digest").get<std::string>(), json.at("compared").get<bool>(),
          json.at("cells").get<std::uint32_t>(), json.at("probes").get<std::uint32_t>(),
          json.at("recall").get<double>()};
}

void ProgressFile::write(const GraphProgress& progress) {
  json_["graph"] = {{"digest", progress.digest},
                    {"compared", progress.compared},
                    {"cells", progress.cells},
                    {"probes", progress.probes},
                    {"recall", progress.recall}};
  write_durably(path_, json_.dump(2) + "\n");
}

std::optional<SelectionProgress> ProgressFile::selection(const std::string& digest) const {
  if (!json_.contains("selection") || json_.at("digest").get<std::string>() != digest)
    return std::nullopt;
  return progress_of(json_.at("selection"));
}

void ProgressFile::write(const SelectionProgress& progress, const std::string& digest) {
  json_["digest"] = digest;
  json_["selection"] = to_json(progress);
  write_durably(path_, json_.dump(2) + "\n");
}

}  // namespace weft::apps
