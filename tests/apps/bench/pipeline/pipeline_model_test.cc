#include "apps/bench/pipeline/pipeline_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "apps/bench/pipeline/emulated_graph.h"
#include "apps/bench/pipeline/forward_pieces.h"
#include "apps/models/conditional_unet.h"
#include "core/base/error.h"
#include "mesh/runtime/in_process_training.h"
#include "mesh/schedule/named_schedules.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

using testing::HasSubstr;

PipelineModel model_of(const std::string& name, const std::string& schedule = "") {
  return make_pipeline_model({.name = name, .schedule = schedule});
}

mesh::TrainingPlan plan_of(const PipelineModel& model) {
  return mesh::make_training_plan(model.layout, model.graphs,
                                  mesh::predict_places(model.layout, hosts_of(model)));
}

/// Returns `flops` in units of 1e9, rounded to a tenth.
double gigaflops(double flops) { return std::round(flops * 1e-8) / 10; }

double flops_of(const std::vector<ForwardPiece>& pieces, int first, int last) {
  double flops = 0;
  for (const ForwardPiece& piece : pieces) {
    if (piece.block >= first && piece.block < last) flops += piece.flops;
  }
  return flops;
}

std::vector<ForwardPiece> unet_pieces(std::int64_t channels) {
  const ConditionalUnetGraph unet = conditional_unet_graph({.channels = channels}, 1.0);
  return forward_pieces(unet.graph, unet.output);
}

/// Returns the bytes of the full-size model that cross between meshes per microbatch in one pass.
double crossing_bytes(const PipelineModel& model, Pass pass) {
  double bytes = 0;
  for (const mesh::PlannedEdge& planned : plan_of(model).train.edges) {
    if (planned.edge.pass != pass) continue;
    bytes += model.graphs.train.graph.value(planned.edge.value).type.bytes() * model.byte_scale;
  }
  return bytes;
}

/// Returns the seconds of a stage of the full-size model, per microbatch.
PassSeconds stage_seconds(const PipelineModel& model, std::size_t stage) {
  int first = 0;
  for (std::size_t s = 0; s < stage; ++s) first += model.layout.stages[s].layers;
  PassSeconds seconds =
      pass_seconds(model.graphs.train.graph, first, first + model.layout.stages[stage].layers);
  seconds.forward *= model.time_scale;
  seconds.input_grad *= model.time_scale;
  seconds.weight_grad *= model.time_scale;
  return seconds;
}

TEST(ForwardPieces, OfTheConditionalUnetAddUpToThePapersFlops) {
  const std::vector<ForwardPiece> small = unet_pieces(480), large = unet_pieces(672);
  EXPECT_DOUBLE_EQ(gigaflops(flops_of(large, 0, 13)), 372.9);
  EXPECT_DOUBLE_EQ(gigaflops(flops_of(large, 0, 9)), 139.4);
  EXPECT_DOUBLE_EQ(gigaflops(flops_of(large, 9, 13)), 233.5);
  EXPECT_DOUBLE_EQ(gigaflops(flops_of(small, 0, 13)), 191.6);
  EXPECT_DOUBLE_EQ(gigaflops(flops_of(small, 0, 8)), 68.4);
  EXPECT_DOUBLE_EQ(gigaflops(flops_of(small, 8, 13)), 123.2);
}

TEST(ForwardPieces, EndWhereASkipLeaves) {
  // Layers 1 to 3 have two pieces each: the skip leaves between them.
  std::vector<int> blocks;
  for (const ForwardPiece& piece : unet_pieces(32)) blocks.push_back(piece.block);
  EXPECT_EQ(blocks, (std::vector<int>{0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
}

TEST(PipelineModel, CarriesThePapersBytesOverAStageBoundary) {
  constexpr double kFloat = 4, kRows = 64;
  for (const std::string suffix : {"", "-batch"}) {
    const PipelineModel large = model_of("u-transformer-2b" + suffix),
                        small = model_of("u-transformer-1b" + suffix);
    // 319.3 MB
    EXPECT_DOUBLE_EQ(crossing_bytes(large, Pass::kForward), 1856 * 672 * kFloat * kRows);
    EXPECT_DOUBLE_EQ(crossing_bytes(large, Pass::kInputGrad), 1856 * 672 * kFloat * kRows);
    // 235.9 MB
    EXPECT_DOUBLE_EQ(crossing_bytes(small, Pass::kForward), 1920 * 480 * kFloat * kRows);
  }
  constexpr double kMiB = 1 << 20;
  EXPECT_DOUBLE_EQ(crossing_bytes(model_of("gpt-2.6b"), Pass::kForward), 80 * kMiB);
  EXPECT_DOUBLE_EQ(crossing_bytes(model_of("gpt-2.6b"), Pass::kInputGrad), 80 * kMiB);
  EXPECT_DOUBLE_EQ(crossing_bytes(model_of("gpt-1.3b"), Pass::kForward), 64 * kMiB);
  EXPECT_DOUBLE_EQ(crossing_bytes(model_of("gpt-2.6b-4"), Pass::kForward), 3 * 40 * kMiB);
}

TEST(PipelineModel, OtherScalesRoundFeaturesToWholeFloats) {
  const PipelineModel model =
      make_pipeline_model({.name = "u-transformer-2b", .time_scale = 20, .byte_scale = 500});
  EXPECT_NEAR(crossing_bytes(model, Pass::kForward), 319.3e6, 0.001 * 319.3e6);
  EXPECT_DOUBLE_EQ(model.link_rate_bits, 400e6);
}

TEST(PipelineModel, KeepsTheRatioOfTransferToCompute) {
  for (const std::string name :
       {"u-transformer-2b", "u-transformer-1b", "gpt-2.6b", "gpt-2.6b-4", "gpt-1.3b"}) {
    const PipelineModel model = model_of(name);
    EXPECT_DOUBLE_EQ(model.link_rate_bits * model.byte_scale / model.time_scale, 10e9) << name;
    EXPECT_DOUBLE_EQ(model.link_rate_bits, name.starts_with("gpt") ? 600e6 : 500e6) << name;
  }
}

TEST(PipelineModel, StagesTakeTheTimeOfTheirFlops) {
  // 64 samples on four devices of 9 TFLOP/s. The input-gradient pass has half of the backward and
  // the recomputed forward.
  const PipelineModel unet = model_of("u-transformer-2b");
  EXPECT_NEAR(stage_seconds(unet, 0).forward, 64 * 139.4e9 / 36e12, 1e-3 * 0.248);
  const PassSeconds slower = stage_seconds(unet, 1);
  EXPECT_NEAR(slower.forward, 64 * 233.5e9 / 36e12, 1e-3 * 0.415);
  EXPECT_NEAR(slower.input_grad, 2 * slower.forward, 1e-12);
  EXPECT_NEAR(slower.weight_grad, slower.forward, 1e-12);
  // 16 layers on four devices of 50 TFLOP/s. The second stage also has the output layer.
  const PipelineModel gpt = model_of("gpt-2.6b");
  const double layers = 16 * 24 * 16 * 1024.0 * 2560 * 2560 * (1 + 1024.0 / 15360) / 200e12;
  const double head = 2 * 16 * 1024.0 * 2560 * 51200 / 200e12;
  EXPECT_NEAR(stage_seconds(gpt, 0).forward, layers, 1e-9);
  EXPECT_NEAR(stage_seconds(gpt, 0).input_grad, 2 * layers, 1e-9);
  EXPECT_NEAR(stage_seconds(gpt, 1).forward, layers + head, 1e-9);
  EXPECT_NEAR(stage_seconds(gpt, 1).input_grad, 2 * layers + head, 1e-9);
  EXPECT_NEAR(stage_seconds(gpt, 1).weight_grad, layers + head, 1e-9);
}

TEST(PipelineModel, FlopsOfAStepAreThePapers) {
  EXPECT_DOUBLE_EQ(gigaflops(model_of("u-transformer-2b").flops_per_step / (4 * 2048)), 372.9);
  const double b = 1024, s = 1024, h = 2560, l = 32, v = 51200;
  const double formula = 96 * b * s * h * h * l * (1 + s / (6 * h)) + 6 * b * s * h * v;
  for (const std::string name : {"gpt-2.6b", "gpt-2.6b-4"}) {
    const PipelineModel model = model_of(name);
    EXPECT_EQ(model.rows_per_step, b);
    EXPECT_NEAR(model.flops_per_step, formula, 1e-9 * formula);
    // The work of all devices in the emulated time equals the formula.
    double seconds = 0;
    for (std::size_t stage = 0; stage < model.layout.stages.size(); ++stage)
      seconds += stage_seconds(model, stage).all();
    EXPECT_NEAR(seconds * model.layout.microbatches * 50e12 * model.devices_per_host, formula,
                1e-9 * formula);
  }
}

TEST(PipelineModel, DevicesThatSplitWeightsRunInStep) {
  for (const std::string& name : pipeline_model_names()) {
    const PipelineModel model = model_of(name);
    if (!model.emulated) continue;
    const mesh::TrainingPlan plan = plan_of(model);
    std::map<Pass, int> collectives;
    for (const mesh::MeshPartition& part : plan.partition.per_mesh) {
      for (const mesh::Step& step : part.steps) {
        if (std::holds_alternative<mesh::ComputeStep>(step.what)) continue;
        const auto& move = std::get<mesh::MoveStep>(step.what);
        ASSERT_EQ(move.move.kind, mesh::MoveKind::kAllReduce) << name;
        // Rows have one element, so the collective costs a message and no bandwidth.
        const Value& value = plan.partition.graph.value(part.locals[move.input].value);
        EXPECT_EQ(value.type.elements(), value.type.shape[0]) << name;
        ++collectives[step.pass];
      }
    }
    const bool splits = model.layout.meshes[0].axes[1].size > 1;
    // Each piece has one; the input of the first piece has a gradient too.
    const int pieces = name == "gpt-2.6b"   ? 33
                       : name == "gpt-1.3b" ? 25
                                            : collectives[Pass::kForward];
    EXPECT_EQ(collectives[Pass::kForward], splits ? pieces : 0) << name;
    EXPECT_EQ(collectives[Pass::kInputGrad], splits ? pieces : 0) << name;
    EXPECT_GE(pieces, splits ? 13 : 0) << name;
  }
}

TEST(PipelineModel, DescriptionsSayWhatIsEmulated) {
  for (const std::string& name : pipeline_model_names()) {
    const PipelineModel model = model_of(name);
    EXPECT_THAT(model.description, HasSubstr(model.emulated ? "emulated" : "computed")) << name;
    EXPECT_EQ(static_cast<std::size_t>(model.hosts), model.layout.meshes.size()) << name;
  }
  EXPECT_THAT(model_of("u-transformer-2b").description,
              HasSubstr("2.133 B parameters, 372.9 GFLOP a sample"));
}

TEST(PipelineModel, SkipsAndBatchesLieAsTheirNamesSay) {
  const auto split = [](const std::string& name) {
    const mesh::TrainingPlan plan = plan_of(model_of(name));
    const mesh::MeshEdge& edge = plan.train.edges.front().edge;
    return to_string(plan.partition.per_mesh[mesh::MeshId(0)].locals[edge.source].spec,
                     plan.partition.meshes[mesh::MeshId(0)]);
  };
  // the hidden tensor and three skips, in both directions
  EXPECT_EQ(plan_of(model_of("u-transformer-2b")).train.edges.size(), 8u);
  EXPECT_EQ(split("u-transformer-2b"), "[-,-]");
  EXPECT_EQ(split("u-transformer-2b-batch"), "[data,-]");
  EXPECT_EQ(split("gpt-2.6b"), "[data,-]");
}

TEST(PipelineModel, CompilesForEveryNamedSchedule) {
  for (const std::string& schedule : mesh::schedule_names()) {
    for (const std::string name : {"chain-4", "gpt-2.6b", "gpt-real"}) {
      PipelineModelRequest request{.name = name, .schedule = schedule, .microbatches = 8};
      const PipelineModel model = make_pipeline_model(request);
      EXPECT_EQ(plan_of(model).train.programs.size(),
                static_cast<std::size_t>(model.hosts * model.devices_per_host))
          << name << " " << schedule;
    }
  }
  for (const std::string& schedule : mesh::one_stage_schedule_names()) {
    for (const std::string& name : pipeline_model_names()) {
      PipelineModelRequest request{.name = name, .schedule = schedule, .microbatches = 4};
      EXPECT_NO_THROW(plan_of(make_pipeline_model(request))) << name << " " << schedule;
    }
  }
}

TEST(PipelineModel, RealOnesAreAsGoodAsGuessingBeforeTheyLearn) {
  const std::vector<std::pair<std::string, double>> classes{{"gpt-real", 1024},
                                                            {"u-transformer-real", 8}};
  for (const auto& [name, count] : classes) {
    const PipelineModel model = make_pipeline_model({.name = name, .microbatches = 1});
    const mesh::TrainingPlan plan = plan_of(model);
    PipelineBatches batches(model.batches);
    mesh::InProcessTraining training(plan, batches, 1);
    mesh::StepRequest request;
    request.program = plan.validate.programs.front().name;
    // Pixel weights are uniform in [0, 1), so their mean is 0.5.
    const double weight = name == "gpt-real" ? 1 : 0.5;
    EXPECT_NEAR(training.run(request).loss, weight * std::log(count), 0.3) << name;
  }
}

TEST(PipelineModel, AChainsTransfersTakeTheirShareOfItsCompute) {
  const PipelineModel model = make_pipeline_model(
      {.name = "chain-4", .pass_seconds = 0.02, .transfer_ratio = 0.5, .link_rate_bits = 400e6});
  const double seconds =
      crossing_bytes(model, Pass::kForward) / 3 / (model.link_rate_bits / 8 * kLinkGoodput);
  EXPECT_NEAR(seconds, 0.5 * 0.06, 1e-6);
  EXPECT_DOUBLE_EQ(stage_seconds(model, 2).all(), 0.06);
  EXPECT_DOUBLE_EQ(crossing_bytes(model_of("chain-4"), Pass::kForward), 3 * 4);
}

TEST(PipelineModel, AChainsChunksShareTheTimeOfAMesh) {
  const PipelineModel model = model_of("chain-4", "zb-v");
  EXPECT_EQ(model.layout.mesh_of_stage(), (std::vector<int>{0, 1, 2, 3, 3, 2, 1, 0}));
  EXPECT_DOUBLE_EQ(stage_seconds(model, 0).all() + stage_seconds(model, 7).all(), 0.06);
}

TEST(PipelineModel, AChainsReplicasLieOnHostsOfTheirOwnAndHaveGradientsToSum) {
  const PipelineModel model = make_pipeline_model({.name = "chain-2",
                                                   .schedule = "interleaved-1f1b",
                                                   .pass_seconds = 0.02,
                                                   .link_rate_bits = 400e6,
                                                   .replicas = 2,
                                                   .reduction_ratio = 1.5});
  EXPECT_EQ(model.hosts, 4);
  EXPECT_EQ(model.layout.meshes[1].hosts, (std::vector<std::string>{"host2", "host3"}));
  const mesh::TrainingPlan plan = plan_of(model);
  double sent = 0;
  for (const mesh::Transfer& transfer : plan.train.programs[0].transfers) {
    if (transfer.kind == mesh::TransferPurpose::kAllReduce) sent += transfer.bytes_sent();
  }
  EXPECT_NEAR(sent / (model.link_rate_bits / 8 * kLinkGoodput), 1.5 * 0.06, 1e-3);
}

TEST(PipelineModel, RefusesImpossibleRequests) {
  const auto refused = [](const PipelineModelRequest& request) -> std::string {
    return test::error_message(ErrorCode::kInvalidArgument, [&] { make_pipeline_model(request); });
  };
  EXPECT_THAT(refused({.name = "gpt-2.7b"}), HasSubstr("did you mean 'gpt-2.6b'"));
  EXPECT_THAT(refused({.name = "chain-0"}), HasSubstr("1 to 64"));
  EXPECT_THAT(refused({.name = "u-transformer-2b", .schedule = "zb-v"}),
              HasSubstr("one stage on each"));
  EXPECT_THAT(refused({.name = "chain-4", .chunks = 2}), HasSubstr("need a schedule"));
  EXPECT_THAT(refused({.name = "gpt-real", .schedule = "interleaved-1f1b", .chunks = 3}),
              HasSubstr("cannot be cut"));
  EXPECT_THAT(refused({.name = "chain-2", .reduction_ratio = 1}), HasSubstr("from two on"));
  EXPECT_THAT(refused({.name = "gpt-2.6b", .time_scale = -1}), HasSubstr("cannot be negative"));
}

}  // namespace
}  // namespace weft::apps
