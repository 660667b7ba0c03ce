#include "apps/bench/pipeline/pipeline_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/bench/pipeline/pipeline_run.h"
#include "core/base/error.h"
#include "mesh/plan/training_plan.h"

namespace weft::apps {
namespace {

/// Link rate while compute is measured.
constexpr std::uint64_t kFastLink = 10'000'000'000;
/// Time limit of a peer for a case.
constexpr int kPeerSeconds = 3600;

/// Returns the bytes per microbatch that cross a stage boundary one way, for the boundary with
/// most.
double boundary_bytes(const PipelineModel& model) {
  const mesh::TrainingPlan plan = mesh::make_training_plan(
      model.layout, model.graphs, mesh::predict_places(model.layout, hosts_of(model)));
  std::map<std::pair<mesh::MeshId, mesh::MeshId>, double> bytes;
  for (const mesh::PlannedEdge& planned : plan.train.edges) {
    if (planned.edge.pass != Pass::kForward) continue;
    bytes[{planned.edge.from_mesh, planned.edge.to_mesh}] +=
        plan.partition.graph.value(planned.edge.value).type.bytes();
  }
  double most = 0;
  for (const auto& [meshes, sum] : bytes) most = std::max(most, sum);
  return most;
}

std::vector<std::string> schedules_of(const PipelineCase& bench) {
  std::vector<std::string> names;
  for (const Arm& arm : bench.arms)
    if (std::find(names.begin(), names.end(), arm.schedule) == names.end())
      names.push_back(arm.schedule);
  return names;
}

/// Returns the model request of an arm, which decides the placement of stages and vocabulary.
PipelineModelRequest model_for(const PipelineCase& bench, const Arm& arm) {
  PipelineModelRequest request = bench.model;
  request.schedule = arm.schedule;
  request.vocabulary_mode = arm.vocabulary;
  request.redistributed = arm.redistributed;
  return request;
}

}  // namespace

void PipelineBench::shape_links(int hosts, std::uint64_t bits) {
  if (cluster_ == nullptr || cluster_->test_hosts() == nullptr) return;
  for (int host = 0; host < hosts; ++host) cluster_->test_hosts()->limit(host, 0, bits);
}

std::uint64_t PipelineBench::link_for(const PipelineCase& bench, const PipelineModel& model) {
  if (!bench.transfer_ratio || model.emulated)
    return static_cast<std::uint64_t>(model.link_rate_bits);
  auto found = stage_seconds_.find(model.name);
  if (found == stage_seconds_.end()) {
    shape_links(model.hosts, kFastLink);
    PipelineRun run(cluster_, model, {1, {}, kFastLink, options_.stop, {}});
    found = stage_seconds_.emplace(model.name, run.slowest_stage_seconds()).first;
    if (options_.progress)
      options_.progress(fmt::format("{}: F+B of the slower stage takes {:.1f} ms a microbatch",
                                    model.name, 1e3 * found->second));
  }
  const double seconds = *bench.transfer_ratio * found->second;
  return std::llround(boundary_bytes(model) * 8 / kLinkGoodput / seconds);
}

std::vector<PeerResult> PipelineBench::run_peer(const PipelineCase& bench,
                                                std::uint64_t link_bits) {
  std::vector<PeerResult> peers;
  if (options_.peer.empty() || !bench.with_peer) return peers;
  const std::filesystem::path file = options_.out / (bench.name + ".peer.json");
  const std::filesystem::path log = options_.out / (bench.name + ".peer.log");
  const std::string command =
      fmt::format("timeout --kill-after=10s {} {} --link {}kbit --json '{}' > '{}' 2>&1",
                  kPeerSeconds, options_.peer, link_bits / 1000, file.string(), log.string());
  if (options_.progress) options_.progress(command);
  // The peer makes its own hosts with the same links; ours are idle meanwhile.
  // NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe): the user's own command
  if (std::system(command.c_str()) != 0)
    throw_error(ErrorCode::kUnavailable, "the peer failed, or took more than {} s: {}; see {}",
                kPeerSeconds, command, log.string());
  std::ifstream stream(file);
  const nlohmann::json document = nlohmann::json::parse(stream, nullptr, false);
  try {
    const auto system = document.at("system").get<std::string>();
    const nlohmann::json& run = document.at("runs").at(0);
    for (const nlohmann::json& row : run.at("schedules"))
      peers.push_back({system + " " + row.at("label").get<std::string>(),
                       row.at("seconds").at("median").get<double>()});
    peers.push_back({system + ", compute of the slower stage alone",
                     run.at("compute_alone").at("slower").get<double>(), false});
  } catch (const nlohmann::json::exception& error) {
    throw_error(ErrorCode::kUnavailable,
                "{} is not what tests/bench/peers/pipelining --json writes: {}; see {}",
                file.string(), error.what(), log.string());
  }
  return peers;
}

WorkloadResult PipelineBench::run(const PipelineCase& bench) {
  const PipelineModel model = make_pipeline_model(bench.model);
  const bool shaped = cluster_ == nullptr || cluster_->test_hosts() != nullptr;
  const std::uint64_t link = link_for(bench, model);
  shape_links(model.hosts, link);
  WorkloadResult result;
  result.name = bench.name;
  result.description = model.description;
  result.emulated = model.emulated;
  result.link_bits = shaped ? link : 0;
  result.transfer_ratio = bench.transfer_ratio;
  result.stages = model.layout.stages.size();
  result.microbatches = model.layout.microbatches;
  if (bench.model_per_arm) result.vocabulary = bench.model.vocabulary;
  result.rows_per_step = model.rows_per_step;
  result.flops_per_step = model.flops_per_step;
  result.time_scale = model.time_scale;
  result.byte_scale = model.byte_scale;
  result.dispatch = bench.model.pass_seconds == 0;
  const PipelineRun::Options run_options{options_.steps, schedules_of(bench), result.link_bits,
                                         options_.stop, options_.progress};
  if (bench.model_per_arm) {
    for (const Arm& arm : bench.arms) {
      PipelineRun run(cluster_, make_pipeline_model(model_for(bench, arm)), run_options);
      result.arms.push_back(run.run(arm));
    }
    return result;
  }
  PipelineRun run(cluster_, model, run_options);
  for (const Arm& arm : bench.arms) result.arms.push_back(run.run(arm));
  result.unhidable_seconds = run.unhidable_seconds();
  result.peers = run_peer(bench, link);
  return result;
}

}  // namespace weft::apps
