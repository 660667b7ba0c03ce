#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>

#include "apps/gpt/gpt_app.h"
#include "apps/run_files/checkpoint.h"
#include "apps/run_files/metrics.h"
#include "apps/train/run_config.h"
#include "apps/train/training_loop.h"
#include "core/base/error.h"
#include "core/config/config_document.h"
#include "core/cpu/cpu_device.h"
#include "mesh/runtime/in_process_training.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Shipped run file with a small model and text, and all devices in this process.
class RunFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream out(root_ / "text.txt");
    for (int i = 0; i < 3000; ++i)
      out << "the " << i * 7919 % 100 << " and the lord of " << i * 104729 % 30 << "\n";
  }

  std::vector<std::string> small(std::vector<std::string> more = {}) const {
    std::vector<std::string> overrides = {
        "model={layers: 4, width: 32, heads: 4, sequence: 16}",
        "data={text: " + (root_ / "text.txt").string() +
            ", tokenizer: bytes, cache: " + (root_ / "cache").string() + "}",
        "training.steps=8",
        "training.validate_every=4",
        "training.validation_batches=1",
        "checkpoint.every=3"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return overrides;
  }
  static fs::path shipped() { return fs::path(WEFT_SOURCE_DIR) / "cluster.yaml"; }

  RunSummary train_in(const fs::path& path, const std::vector<std::string>& overrides,
                      std::uint64_t stop_after = 0) {
    GptApp app;
    const SteadyClock clock;
    const PlannedRun planned = plan_run(ConfigDocument::load(shipped(), overrides), app);
    const RunConfig& config = planned.config;
    const PreparedData data = app.prepare_data();
    const auto batches = app.open_batches(data.batches);
    mesh::InProcessTraining engine(planned.plan, *batches, config.seed);
    const RunDirectory directory = RunDirectory::prepare(path, config.checkpoint.resume);
    const TrainingRun run{
        .name = config.name,
        .app = app.name(),
        .seed = config.seed,
        .training = config.training,
        .checkpoint = config.checkpoint,
        .units_per_step = config.training.batch * config.model.units_per_row,
        .model_digest = data.digest,
        .baseline = data.baseline,
        .subtitle = config.layout.schedule,
        .report_on_model = [&](const TrainedValues& trained, const fs::path& folder) {
          EXPECT_TRUE(released_);
          CpuDevice device;
          return data.report_on_model({device, trained, folder});
        }};
    released_ = false;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> screen(std::tmpfile(), std::fclose);
    std::stop_source stop;
    struct StopAfter final : mesh::TrainingEngine {
      StopAfter(mesh::TrainingEngine& engine, std::stop_source& source, std::uint64_t step,
                bool& flag)
          : inner(engine), stop(source), last(step), released(flag) {}
      const Graph& graph() const override { return inner.graph(); }
      mesh::StepResult run(mesh::StepRequest request) override {
        if (request.split == mesh::Split::kTrain && request.step == last) stop.request_stop();
        return inner.run(request);
      }
      bool supports_copies() const override { return inner.supports_copies(); }
      void copy_state() override { inner.copy_state(); }
      void gather(const ReadStateSlice& take, const std::stop_token& given_up) override {
        inner.gather(take, given_up);
      }
      void restore(const WriteStateSlice& give, std::int64_t steps) override {
        inner.restore(give, steps);
      }
      std::vector<DeviceTrace> take_traces() override {
        EXPECT_FALSE(released);
        return inner.take_traces();
      }
      void release() override { released = true; }
      mesh::TrainingEngine& inner;
      std::stop_source& stop;
      std::uint64_t last;
      bool& released;
    } stopping(engine, stop, stop_after, released_);
    RunSummary summary = train(run, stopping,
                               {.directory = directory,
                                .screen = {.out = screen.get()},
                                .clock = clock,
                                .stop = stop.get_token()});
    shown_.clear();
    std::rewind(screen.get());
    for (int c = std::fgetc(screen.get()); c != EOF; c = std::fgetc(screen.get()))
      shown_ += static_cast<char>(c);
    return summary;
  }
  static std::vector<double> losses(const fs::path& run) {
    std::vector<double> result;
    for (const StepMetrics& m : read_metrics(run / "metrics.jsonl")) result.push_back(m.loss);
    return result;
  }
  static std::string refusal(const std::vector<std::string>& overrides) {
    return test::error_message(ErrorCode::kInvalidConfig, [&] {
      GptApp app;
      plan_run(ConfigDocument::load(shipped(), overrides), app);
    });
  }

  const test::ScratchFolder scratch_;
  const fs::path& root_ = scratch_.path();
  std::string shown_;      ///< Screen output of the last run.
  bool released_ = false;  ///< True if the last run released its engine.
};

TEST_F(RunFileTest, TheShippedOneIsAccepted) { EXPECT_EQ(refusal({}), ""); }

TEST_F(RunFileTest, MistakesAreRefusedBeforeAnythingStarts) {
  EXPECT_THAT(refusal(small({"training.batch=30"})),
              HasSubstr("batch 30 does not divide into 8 microbatches; 32 would"));
  EXPECT_THAT(refusal(small({"model.layers=5"})), HasSubstr("layers"));
  EXPECT_THAT(refusal(small({"meshes.front.shape={data: 1, tensor: 3}"})), HasSubstr("worker0"));
  EXPECT_THAT(refusal(small({"pipeline.shedule=gpipe"})), HasSubstr("schedule"));
  EXPECT_THAT(refusal(small({"modle={layers: 3}"})), HasSubstr("model"));
  const std::string several = refusal(small({"training.steps=many", "model.heads=5"}));
  EXPECT_THAT(several, HasSubstr("steps"));
  EXPECT_THAT(several, HasSubstr("heads"));
}

TEST_F(RunFileTest, AMistakeIsReportedWithItsPlaceAndAdvice) {
  const auto line_of = [](const std::string& text) {
    std::ifstream file(shipped());
    int number = 1;
    for (std::string line; std::getline(file, line); ++number)
      if (line.find(text) != std::string::npos) return number;
    return 0;
  };
  EXPECT_THAT(refusal(small({"meshes.back.hosts=[wroker1]"})),
              HasSubstr("cluster.hosts has no host 'wroker1', only worker0, worker1; did you mean "
                        "'worker1'?"));
  // The second mesh needs more devices than its host has. The error names that mesh's line.
  EXPECT_THAT(refusal(small({"cluster.hosts.1.devices=1"})),
              HasSubstr(fmt::format("cluster.yaml:{}:", line_of("  back:"))));
  EXPECT_THAT(refusal(small({"training.batch=8"})),
              HasSubstr("training.batch: 8 rows in 8 microbatches leave 1 row each, which mesh "
                        "'back' cannot split 2 ways; take a multiple of 16"));
  EXPECT_THAT(refusal(small({"meshes.front.shape=[1, 2]"})),
              HasSubstr("meshes.front.shape: expected axes with their sizes, such as {data: 1, "
                        "tensor: 2}"));
  EXPECT_THAT(refusal(small({"pipeline.schedule=zb-v"})),
              AllOf(HasSubstr(fmt::format("cluster.yaml:{}:", line_of("mesh: front, layers"))),
                    HasSubstr("list stages on the meshes front, back, back, front in this order, "
                              "not front, back")));
}

TEST_F(RunFileTest, AShardingRuleForAnAxisThatNoTensorHasIsRefusedAtItsPlace) {
  const fs::path file = root_ / "run.yaml";
  std::ifstream shipped_file(shipped());
  std::string text(std::istreambuf_iterator<char>(shipped_file), {});
  text.replace(text.find("  batch: data"), 13, "  bathc: data");
  std::ofstream(file) << text;
  const auto line = 1 + std::count(text.begin(), text.begin() + text.find("  bathc"), '\n');
  GptApp app;
  EXPECT_THAT([&] { plan_run(ConfigDocument::load(file, small()), app); },
              test::throws_error(
                  ErrorCode::kInvalidConfig,
                  testing::Eq(fmt::format("{}:{}:3: sharding.bathc: no tensor of the model has "
                                          "such an axis, only batch, embed, "
                                          "heads, mlp, qkv, sequence, vocab; did you mean 'batch'?",
                                          file.string(), line))));
  EXPECT_EQ(refusal(small({"sharding={batch: data, sequence: tensor, embed: [tensor]}"}))
                .find("sharding"),
            std::string::npos);
}

TEST_F(RunFileTest, SizesAtTheEdgesOfIntegersAreRefusedByTheirKeyOrPlanned) {
  constexpr std::int64_t k31 = std::int64_t{1} << 31, k32 = std::int64_t{1} << 32,
                         k62 = std::int64_t{1} << 62,
                         kMost = std::numeric_limits<std::int64_t>::max();
  for (const char* key : {"training.batch",
                          "training.steps",
                          "training.warmup_steps",
                          "training.validate_every",
                          "training.validation_batches",
                          "model.layers",
                          "model.width",
                          "model.heads",
                          "model.sequence",
                          "data.vocabulary",
                          "pipeline.microbatches",
                          "pipeline.credits",
                          "pipeline.stages.0.layers",
                          "meshes.front.shape.data",
                          "cluster.threads_per_device",
                          "cluster.hosts.0.devices",
                          "sample.tokens",
                          "sample.top_k",
                          "checkpoint.every",
                          "checkpoint.keep",
                          "seed"}) {
    for (const std::int64_t size : {k31 - 1, k31, k32 - 1, k32, k62 - 1, k62, kMost}) {
      const std::string said = refusal({fmt::format("{}={}", key, size)});
      const std::string last = std::string(key).substr(std::string(key).rfind('.') + 1);
      EXPECT_TRUE(said.empty() || said.find(last) != std::string::npos)
          << key << "=" << size << ": " << said;
    }
  }
}

TEST_F(RunFileTest, ABatchTooLargeForTheModelIsNamed) {
  const std::vector<std::string> whole = {"pipeline.microbatches=1",
                                          "meshes.back.shape={data: 1, tensor: 1}",
                                          "model.width=1048576", "model.sequence=1048576"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), whole.begin(), whole.end());
    return refusal(more);
  };
  EXPECT_THAT(with({"training.batch=1073741824"}),
              AllOf(HasSubstr("--set training.batch=1073741824: training.batch: 1073741824 in 1 "
                              "microbatch is too large for this "
                              "model: tensor 'tokens' i32[1073741824,1048576]"),
                    HasSubstr("is larger than 1 PiB")));
  EXPECT_EQ(with({"training.batch=1"}), "");
}

TEST_F(RunFileTest, APlanSaysRightNumbersOfSizesThatNoMachineHas) {
  GptApp app;
  const std::vector<std::string> overrides =
      small({"training.batch=1073741824", "pipeline.microbatches=1"});
  const PlannedRun planned = plan_run(ConfigDocument::load(shipped(), overrides), app);
  // The minimum that any device holds of a row: attention's f32 inputs in its layers.
  for (const mesh::Program& program : planned.plan.train.programs)
    EXPECT_GT(program.arena_bytes, std::uint64_t{1} << 42) << program.device_name;
}

TEST_F(RunFileTest, TheDigestOfAPlanIsThatOfItsStepsAlone) {
  const auto digest = [&](const std::vector<std::string>& more) {
    GptApp app;
    return mesh::digest_of_steps(plan_run(ConfigDocument::load(shipped(), small(more)), app).plan);
  };
  const std::string shipped_digest = digest({});
  EXPECT_EQ(shipped_digest.size(), 64u);
  EXPECT_EQ(digest({"training.learning_rate=0.5", "checkpoint.buffer=5KiB"}), shipped_digest);
  EXPECT_NE(digest({"pipeline.schedule=gpipe"}), shipped_digest);
  EXPECT_NE(digest({"pipeline.resharding=send_recv"}), shipped_digest);
}

TEST_F(RunFileTest, AnInterruptedRunGoesOnBitForBitAndOnAnotherMeshShapeWithinTolerance) {
  train_in(root_ / "whole", small());
  EXPECT_EQ(train_in(root_ / "part", small({"checkpoint.buffer=5KiB"}), 5).outcome, "interrupted");
  const std::string resume = "checkpoint.resume=" + (root_ / "part").string();
  EXPECT_EQ(train_in(root_ / "same", small({resume, "checkpoint.buffer=3KiB"})).resumed_from, 5);
  EXPECT_EQ(losses(root_ / "same"), losses(root_ / "whole"));
  train_in(root_ / "other", small({resume, "meshes.front.shape={data: 2, tensor: 1}",
                                   "meshes.back.shape={data: 1, tensor: 2}",
                                   "pipeline.schedule=gpipe", "pipeline.resharding=send_recv"}));
  const auto expected = losses(root_ / "whole");
  const auto other = losses(root_ / "other");
  ASSERT_EQ(other.size(), expected.size());
  for (std::size_t i = 0; i < other.size(); ++i)
    EXPECT_NEAR(other[i], expected[i], 2e-4 * expected[i]) << "step " << i + 1;
}

TEST_F(RunFileTest, InOneThreadAutoSaysThatItStaysWithItsFirstSchedule) {
  train_in(root_ / "auto", small({"pipeline.schedule=auto", "training.steps=2"}));
  EXPECT_THAT(shown_, HasSubstr("schedule auto: keeping zb-h1: all devices run in one thread"));
}

}  // namespace
}  // namespace weft::apps
