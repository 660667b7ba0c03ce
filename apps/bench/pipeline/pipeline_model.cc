#include "apps/bench/pipeline/pipeline_model.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "apps/bench/pipeline/internal/models.h"
#include "core/base/error.h"
#include "core/base/nearest.h"

namespace weft::apps {
namespace {

constexpr int kLongestChain = 64;

using Maker = PipelineModel (*)(const PipelineModelRequest&);

struct NamedModel {
  std::string_view name;
  Maker make;
};

constexpr NamedModel kModels[] = {
    {"u-transformer-2b", paper_u_transformer},
    {"u-transformer-2b-batch", paper_u_transformer},
    {"u-transformer-1b", paper_u_transformer},
    {"u-transformer-1b-batch", paper_u_transformer},
    {"gpt-2.6b", paper_gpt},
    {"gpt-2.6b-4", paper_gpt},
    {"gpt-1.3b", paper_gpt},
    {"gpt-4b", vocabulary_gpt},
    {"gpt-real", real_gpt},
    {"gpt-real-vocab", real_vocabulary_gpt},
    {"u-transformer-real", real_u_transformer},
};

/// Returns P of "chain-P".
std::optional<int> chain_length(std::string_view name) {
  constexpr std::string_view kPrefix = "chain-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  int meshes = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), meshes);
  if (error != std::errc() || end != name.data() + name.size() || meshes < 1 ||
      meshes > kLongestChain) {
    throw_error(ErrorCode::kInvalidArgument, "a chain has 1 to {} stages: chain-4, not chain-{}",
                kLongestChain, name);
  }
  return meshes;
}

}  // namespace

std::vector<std::pair<std::string, std::uint32_t>> hosts_of(const PipelineModel& model) {
  std::vector<std::pair<std::string, std::uint32_t>> hosts;
  for (int host = 0; host < model.hosts; ++host) {
    hosts.emplace_back("host" + std::to_string(host),
                       static_cast<std::uint32_t>(model.devices_per_host));
  }
  return hosts;
}

std::vector<std::string> pipeline_model_names() {
  std::vector<std::string> names;
  for (const NamedModel& model : kModels) names.emplace_back(model.name);
  return names;
}

PipelineModel make_pipeline_model(const PipelineModelRequest& request) {
  if (request.microbatches < 0 || request.chunks < 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "microbatches {} and chunks {} of a model must be at least 1, or 0 for its own",
                request.microbatches, request.chunks);
  }
  if (const std::optional<int> meshes = chain_length(request.name))
    return chain_model(request, *meshes);
  const auto found = std::ranges::find(kModels, request.name, &NamedModel::name);
  if (found == std::end(kModels)) {
    std::vector<std::string> known = pipeline_model_names();
    known.emplace_back("chain-4");
    throw_error(ErrorCode::kInvalidArgument, "there is no model '{}'{}", request.name,
                did_you_mean(request.name, known));
  }
  return found->make(request);
}

}  // namespace weft::apps
