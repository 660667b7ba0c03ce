#include "apps/selection/graph_worker.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "apps/selection/centroids.h"
#include "apps/selection/point_store.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/memory.h"

namespace weft::apps {

GraphShape GraphWorker::begin(const GraphSettings& settings) {
  settings_ = settings;
  parts_.reset();
  session_.open_folders(settings.scratch, "graph", "cells");
  make_folders(settings.store, "give another folder for the points");
  parts_.emplace(session_, settings_, transfer_.copies(settings.scratch));
  const GraphInputReader& input = parts_->input;
  session_.own_shards({input.points(), static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
                                           settings.shards, 1, input.points()))},
                      settings.discard_state);
  GraphShape shape{input.points(), input.dimensions(), session_.layout().shards, "", ""};
  if (input.has_vectors()) {
    shape.search = vector_search().search->name();
    // The library has allocated its memory by now.
    if (const auto left = available_data())
      settings_.memory = std::min(settings_.memory, *left / 2);
    shape.verify_search = vector_search().problem;
  }
  return shape;
}

std::uint64_t GraphWorker::missing(bool compared, std::uint32_t cells, std::uint32_t probes) const {
  std::vector<std::filesystem::path> files;
  if (cells > 0) files = {parts_->cells.centroids_file(), parts_->recall.file()};
  if (compared || probes > 0)
    for (const std::uint32_t shard : session_.shards())
      files.push_back(parts_->found.file(shard, compared ? 0 : probes));
  return static_cast<std::uint64_t>(std::ranges::count_if(
      files, [](const std::filesystem::path& file) { return !std::filesystem::exists(file); }));
}

std::vector<InputShard> GraphWorker::validate_rows() {
  std::vector<InputShard> validated;
  for (const std::uint32_t shard : session_.shards())
    validated.push_back(
        parts_->input.validate(shard, session_.first_of(shard), session_.first_of(shard + 1)));
  return validated;
}

std::uint64_t GraphWorker::bytes_at_least(std::uint64_t points, std::uint64_t width,
                                          std::uint32_t shards, std::uint32_t cells) {
  const std::uint64_t vector = width * sizeof(float);
  const std::uint64_t block = std::min(points, ExhaustiveSearch::rows_at_a_time(width)) * vector;
  const std::uint64_t inspected = std::min(points, kValidatedRows) * vector;
  if (cells == 0) return std::max(inspected, (points + shards - 1) / shards * vector + block);
  // Each sample has a nearest cell and a product. A centroid is summed in f64.
  const std::uint64_t training = centroid_sample(points, cells, width) * (vector + 12) +
                                 cells * width * (sizeof(float) + sizeof(double));
  return std::max({inspected, training, kSamples * vector + block});
}

std::string GraphWorker::read_manifest(const std::string& digest) {
  std::ifstream stream(manifest_file());
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  const nlohmann::json manifest = nlohmann::json::parse(text, nullptr, false);
  if (!manifest.is_object() || manifest.value("digest", "") != digest) return "";
  try {
    const PointStore store(settings_.store);
    for (const std::uint32_t shard : session_.shards()) store.read(shard);
  } catch (const Error&) {
    return "";  // incomplete or damaged
  }
  return text;
}

void GraphWorker::invalidate_store() { remove_store_index(settings_.store); }

void GraphWorker::publish_store(const std::string& manifest, std::uint64_t directed_edges) {
  write_durably(manifest_file(), manifest);
  write_store_index(settings_.store, session_.layout(), directed_edges);
}

std::filesystem::path GraphWorker::manifest_file() const {
  return std::filesystem::path(settings_.store) / "graph.json";
}

void GraphWorker::clean() {
  session_.remove_folders();
  transfer_.remove_copies(settings_.scratch);
}

}  // namespace weft::apps
