#include "apps/selection/selection_worker.h"

#include <filesystem>

#include "core/base/error.h"

namespace weft::apps {

SelectionWorker::SelectionWorker(actors::Context& context) : context_(context), session_(context) {}

std::uint64_t SelectionWorker::generate(const std::string& folder, const GeneratedPoints& request) {
  std::uint64_t edges = 0;
  for (const std::uint32_t shard :
       ShardOwners{request.layout(), session_.num_ranks()}.shards_of(session_.rank())) {
    if (context_.stop_token().stop_requested())
      throw_error(ErrorCode::kCancelled,
                  "generating points was cancelled, because the driver disconnected");
    edges += generate_shard(folder, request, shard);
  }
  return edges;
}

void SelectionWorker::write_index(const std::string& folder, const GeneratedPoints& request,
                                  std::uint64_t directed_edges) {
  write_store_index(folder, request.layout(), directed_edges);
}

GroundSet SelectionWorker::inspect_store(const std::string& folder) const {
  try {
    const PointStore store(folder);
    const ShardOwners owners{store.layout(), session_.num_ranks()};
    for (const std::uint32_t shard : owners.shards_of(session_.rank())) store.read(shard);
    return {store.layout().points, store.layout().shards, store.num_edges()};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    return {};
  }
}

GroundSet SelectionWorker::begin(const SelectionSettings& settings) {
  settings_ = settings;
  parts_.reset();
  session_.open_folders(settings.scratch, "state", "spill");
  const GroundSet ground_set = inspect_store(settings.points);
  if (ground_set.points == 0)
    throw_error(ErrorCode::kNotFound,
                "the points of worker {} do not exist in {} on its host. If a host failed, its "
                "scratch folder is lost: start the run again",
                session_.rank(), settings.points);
  parts_.emplace(session_, settings_, state_);
  session_.own_shards(parts_->store.layout(), settings.discard_state);
  return ground_set;
}

void SelectionWorker::clean() {
  std::error_code ignored;
  std::filesystem::remove_all(settings_.scratch, ignored);
}

}  // namespace weft::apps
