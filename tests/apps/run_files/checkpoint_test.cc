#include "apps/run_files/checkpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <sstream>

#include "apps/run_files/branch.h"
#include "apps/run_files/metrics.h"
#include "apps/run_files/safetensors.h"
#include "core/base/error.h"
#include "core/base/sha256.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;

class CheckpointTest : public ::testing::Test {
 protected:
  static Checkpoint at_step(std::int64_t step) {
    const float x = step;
    return {.step = step,
            .seed = ~std::uint64_t{0},
            .model_digest = "d1",
            .parameters = {{"wte",
                            {2, 3},
                            {x, 1, 2, 3, 4, 5.0000001f},
                            {x, 0, 0, 0, 0, 1e-38f},
                            {x, 1, 1, 1, 1, 1}},
                           {"h0/\"bias\"", {2}, {x, -0.0f}, {x, 2}, {x, 3}},
                           {"scale", {}, {x}, {x}, {x}}}};
  }
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  const test::ScratchFolder scratch_;
  const fs::path& root_ = scratch_.path();
};

TEST_F(CheckpointTest, ComesBackBitForBit) {
  const fs::path written = CheckpointStore(root_, 2).write(at_step(7));
  const Checkpoint read = read_checkpoint(written);
  EXPECT_EQ(read, at_step(7));
  EXPECT_TRUE(std::signbit(read.parameters[1].values[1]));
  EXPECT_EQ(fs::read_symlink(root_ / "latest"), "step-00000007");
}

TEST_F(CheckpointTest, AFileSystemWithoutLinksGetsAFileThatNamesTheLatest) {
  const MakeLink none = [](const std::string& target, const fs::path& link) {
    throw fs::filesystem_error("cannot create symlink", target, link,
                               std::make_error_code(std::errc::operation_not_permitted));
  };
  CheckpointStore(root_, 2).write(at_step(7));
  point_latest_at(root_, "step-00000007", {}, none);
  ASSERT_TRUE(fs::is_regular_file(fs::symlink_status(root_ / "latest")));
  std::ifstream latest(root_ / "latest");
  std::string name;
  std::getline(latest, name);
  EXPECT_EQ(name, "step-00000007");
  EXPECT_EQ(find_checkpoint(root_ / "latest"), fs::canonical(root_ / "step-00000007"));
  // A link replaces the file when the file system supports links.
  CheckpointStore(root_, 2).write(at_step(9));
  EXPECT_EQ(fs::read_symlink(root_ / "latest"), "step-00000009");
}

TEST_F(CheckpointTest, DamagedFilesSayWhatToDoInPlainWords) {
  const fs::path written = CheckpointStore(root_, 2).write(at_step(7));
  std::ofstream(written / "checkpoint.json") << "{\"format\": 1, \"files\": 7}";
  const std::string description = test::error_of([&] { read_checkpoint(written); }).message();
  EXPECT_THAT(description, HasSubstr("resume from an older checkpoint"));
  EXPECT_THAT(description, testing::Not(HasSubstr("json.exception")));
  std::ofstream(root_ / "metrics.jsonl") << "{\"step\":1,\"loss\":2}\nx\n";
  const std::string metrics =
      test::error_of([&] { read_metrics(root_ / "metrics.jsonl"); }).message();
  EXPECT_THAT(metrics, testing::AllOf(HasSubstr("metrics.jsonl:"), HasSubstr("remove the line")));
  EXPECT_THAT(metrics, testing::Not(HasSubstr("json.exception")));
}

TEST_F(CheckpointTest, KeepsTheNewestFew) {
  CheckpointStore store(root_, 2);
  for (int step : {5, 10, 15, 100}) store.write(at_step(step));
  EXPECT_EQ(entries(), (std::vector<std::string>{"latest", "step-00000015", "step-00000100"}));
}

TEST_F(CheckpointTest, AStepWrittenAgainTakesTheOldOnesPlace) {
  CheckpointStore store(root_, 2);
  store.write(at_step(5));
  Checkpoint second = at_step(5);
  second.parameters[0].values[1] = 42;
  store.write(second);
  EXPECT_EQ(read_checkpoint(find_checkpoint(root_)), second);
  EXPECT_EQ(entries(), (std::vector<std::string>{"latest", "step-00000005"}));
}

TEST_F(CheckpointTest, IsFoundByItsFolderItsParentOrItsRun) {
  const fs::path run = root_ / "run";
  CheckpointStore store(run / "checkpoints", 3);
  store.write(at_step(5));
  const fs::path newest = fs::canonical(store.write(at_step(10)));
  EXPECT_EQ(find_checkpoint(run), newest);
  EXPECT_EQ(find_checkpoint(run / "checkpoints"), newest);
  EXPECT_EQ(find_checkpoint(run / "checkpoints" / "latest"), newest);
  EXPECT_EQ(find_checkpoint(run / "checkpoints" / "step-00000005").filename(), "step-00000005");
  EXPECT_THAT([&] { find_checkpoint(root_ / "nothing"); },
              test::throws_error(ErrorCode::kNotFound, "nothing"));
}

TEST_F(CheckpointTest, AFlippedBitIsNoticed) {
  const fs::path written = CheckpointStore(root_, 1).write(at_step(3));
  {
    std::fstream file(written / "model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-3, std::ios::end);
    file.put('\x55');
  }
  EXPECT_THAT([&] { read_checkpoint(written); },
              test::throws_error(ErrorCode::kDataLoss, "model.safetensors does not have the hash"));
}

TEST_F(CheckpointTest, PiecesOfAnySizeAndOrderMakeTheSameFiles) {
  const Checkpoint whole = at_step(7);
  const fs::path expected = CheckpointStore(root_ / "whole", 1).write(whole);
  const CheckpointMetadata heading{
      7, whole.seed, whole.model_digest, {{"wte", {2, 3}}, {"h0/\"bias\"", {2}}, {"scale", {}}}};
  const auto fill = [&](const ReadStateSlice& take) {
    for (std::size_t p = 3; p-- > 0;) {
      const ParameterState& state = whole.parameters[p];
      for (std::size_t i = 0; i < state.values.size(); ++i) {
        take({p, StateBlock::kSecondMoment, i}, std::span(state.second_moment).subspan(i, 1));
        take({p, StateBlock::kValue, i}, std::span(state.values).subspan(i, 1));
        take({p, StateBlock::kFirstMoment, i}, std::span(state.first_moment).subspan(i, 1));
      }
    }
  };
  const fs::path pieces = CheckpointStore(root_ / "pieces", 1).write(heading, fill);
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "checkpoint.json"})
    EXPECT_EQ(sha256_file(pieces / file), sha256_file(expected / file)) << file;
  const StoredCheckpoint stored(pieces);
  std::vector<float> part(2);
  stored.read({0, StateBlock::kValue, 4}, part);
  EXPECT_EQ(part, (std::vector<float>{4, 5.0000001f}));
}

TEST_F(CheckpointTest, ACheckpointThatIsNotFiniteIsNeitherWrittenNorRead) {
  CheckpointStore store(root_, 1);
  store.write(at_step(5));
  Checkpoint diverged = at_step(10);
  diverged.parameters[1].second_moment[1] = std::numeric_limits<float>::infinity();
  EXPECT_THAT([&] { store.write(diverged); },
              test::throws_error(ErrorCode::kFailedPrecondition,
                                 "the second moment of 'h0/\"bias\"' is not finite after step 10"));
  EXPECT_EQ(entries(), (std::vector<std::string>{"latest", "step-00000005"}));
}

TEST_F(CheckpointTest, MomentsOfAnotherShapeAreRefusedEvenIfTheHashesFit) {
  Checkpoint flat = at_step(4);
  flat.parameters[0].shape = {6};
  const fs::path written = CheckpointStore(root_ / "a", 1).write(at_step(4));
  const fs::path other = CheckpointStore(root_ / "b", 1).write(flat);
  const std::string name = "optimizer.safetensors";
  std::ostringstream description;
  description << std::ifstream(written / "checkpoint.json").rdbuf();
  std::string text = description.str();
  const std::string hash = sha256_file(written / name);
  text.replace(text.find(hash), hash.size(), sha256_file(other / name));
  std::ofstream(written / "checkpoint.json") << text;
  fs::copy_file(other / name, written / name, fs::copy_options::overwrite_existing);
  EXPECT_THAT([&] { read_checkpoint(written); },
              test::throws_error(ErrorCode::kDataLoss, "first_moment.wte does not have the shape"));
}

/// Forks a child that writes step 10 over step 5 (and 10), and exits as if killed at point `n` of
/// the write. Returns false if the write has fewer points.
bool write_and_die(const fs::path& root, int n, const Checkpoint& checkpoint,
                   ReplaceMethod replace_by = ReplaceMethod::kExchange) {
  const pid_t child = ::fork();
  if (child == 0) {
    int points = 0;
    CheckpointStore store(
        root, 1,
        [&](std::string_view) {
          if (++points == n) ::_exit(137);
        },
        replace_by);
    store.write(checkpoint);
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WEXITSTATUS(status) == 137;
}

TEST_F(CheckpointTest, ACrashAtAnyPointLeavesACompleteCheckpointAndARunCanGoOn) {
  int old_ones = 0;
  int new_ones = 0;
  for (int n = 1;; ++n) {
    const fs::path folder = root_ / std::to_string(n);
    CheckpointStore(folder, 1).write(at_step(5));
    const bool died = write_and_die(folder, n, at_step(10));
    const Checkpoint found = read_checkpoint(find_checkpoint(folder));
    EXPECT_TRUE(found == at_step(5) || found == at_step(10)) << "crash at point " << n;
    (found.step == 5 ? old_ones : new_ones) += 1;
    CheckpointStore(folder, 1).write(at_step(15));
    EXPECT_EQ(read_checkpoint(find_checkpoint(folder)), at_step(15));
    std::vector<std::string> left;
    for (const auto& entry : fs::directory_iterator(folder))
      left.push_back(entry.path().filename());
    EXPECT_EQ(left.size(), 2u) << "crash at point " << n;
    if (!died) break;
  }
  EXPECT_EQ(old_ones, 5);  // before the rename
  EXPECT_GE(new_ones, 4);
}

TEST_F(CheckpointTest, ACrashWhileAStepIsReplacedLosesNothingEvenWhenItIsTheOnlyOne) {
  Checkpoint again = at_step(10);
  again.model_digest = "d2";
  for (int n = 1;; ++n) {
    const fs::path folder = root_ / std::to_string(n);
    CheckpointStore(folder, 1).write(at_step(10));
    const bool died = write_and_die(folder, n, again);
    const Checkpoint found = read_checkpoint(find_checkpoint(folder));
    EXPECT_TRUE(found == at_step(10) || found == again) << "crash at point " << n;
    if (!died) break;
  }
}

TEST_F(CheckpointTest, WhereNamesCannotBeExchangedACrashWhileAStepIsReplacedLosesNothingEither) {
  Checkpoint again = at_step(10);
  again.model_digest = "d2";
  bool in_between = false;
  for (int n = 1;; ++n) {
    const fs::path folder = root_ / std::to_string(n);
    CheckpointStore(folder, 1).write(at_step(10));
    const bool died = write_and_die(folder, n, again, ReplaceMethod::kTwoRenames);
    in_between = in_between || !fs::exists(folder / "step-00000010");
    const Checkpoint found = read_checkpoint(find_checkpoint(folder));
    EXPECT_TRUE(found == at_step(10) || found == again) << "crash at point " << n;
    const CheckpointStore next(folder, 1);
    EXPECT_EQ(read_checkpoint(find_checkpoint(folder)), found) << "crash at point " << n;
    if (!died) break;
  }
  EXPECT_TRUE(in_between) << "no crash came between the two renames";
}

/// Folder of a run with checkpoints of steps 4, 8 and 12, and metrics.
class BranchTest : public CheckpointTest {
 protected:
  static constexpr const char* kOldMetrics = "steps 1 to 12";
  static constexpr const char* kNewMetrics = "steps 1 to 4";

  void make_run(const fs::path& run) const {
    CheckpointStore store(run / "checkpoints", 10);
    for (int step : {4, 8, 12}) store.write(at_step(step));
    std::ofstream(run / "metrics") << kOldMetrics;
  }
  static std::string text(const fs::path& path) {
    std::ostringstream content;
    content << std::ifstream(path).rdbuf();
    return content.str();
  }
  /// Begins a branch at checkpoint `from`, as the training loop does when it resumes.
  static std::optional<fs::path> leave(const fs::path& run, const fs::path& from,
                                       std::function<void(std::string_view)> progress = {}) {
    fs::path aside = run / "abandoned.1";
    if (fs::exists(aside)) aside = run / "abandoned.2";
    return begin_branch({.folder = run / "checkpoints",
                         .from = from,
                         .move_target = aside,
                         .metrics_differ = text(run / "metrics") == kOldMetrics,
                         .keep_metrics =
                             [&](const fs::path& kept) {
                               fs::copy_file(run / "metrics", kept / "metrics",
                                             fs::copy_options::overwrite_existing);
                             },
                         .install_metrics = [&] { std::ofstream(run / "metrics") << kNewMetrics; },
                         .progress = std::move(progress)});
  }
  static std::vector<std::string> steps(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().filename().string().starts_with("step-"))
        names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  using Names = std::vector<std::string>;
};

TEST_F(BranchTest, EachCheckpointNamesItsParent) {
  make_run(root_);
  const fs::path folder = root_ / "checkpoints";
  EXPECT_FALSE(parent_of(folder / "step-00000004"));
  EXPECT_EQ(parent_of(folder / "step-00000008"), checkpoint_identity(folder / "step-00000004"));
  EXPECT_EQ(parent_of(folder / "step-00000012"), checkpoint_identity(folder / "step-00000008"));
  CheckpointStore store(root_ / "elsewhere", 10);
  store.set_parent(folder / "step-00000008");
  EXPECT_EQ(parent_of(store.write(at_step(10))), checkpoint_identity(folder / "step-00000008"));
}

TEST_F(BranchTest, LaterCheckpointsMoveAsideAndTheNextResumeUsesTheNewBranch) {
  make_run(root_);
  const fs::path folder = root_ / "checkpoints";
  const auto aside = leave(root_, folder / "step-00000004");
  ASSERT_TRUE(aside);
  EXPECT_EQ(steps(folder), (Names{"step-00000004"}));
  EXPECT_EQ(steps(*aside / "checkpoints"), (Names{"step-00000008", "step-00000012"}));
  EXPECT_EQ(text(*aside / "metrics"), kOldMetrics);
  EXPECT_EQ(text(root_ / "metrics"), kNewMetrics);
  EXPECT_EQ(fs::read_symlink(folder / "latest"), "step-00000004");
  EXPECT_EQ(find_checkpoint(root_).filename(), "step-00000004");

  CheckpointStore store(folder, 1);
  store.set_parent(folder / "step-00000004");
  store.write(at_step(6));
  EXPECT_EQ(find_checkpoint(root_).filename(), "step-00000006");
  EXPECT_EQ(steps(folder), (Names{"step-00000006"}))
      << "the one that was resumed from goes when a newer one is there";
  EXPECT_FALSE(leave(root_, folder / "step-00000006")) << "nothing came later: nothing moves";
}

TEST_F(BranchTest, ARunCanResumeFromABranchThatMovedAside) {
  make_run(root_);
  const fs::path folder = root_ / "checkpoints";
  const fs::path aside = *leave(root_, folder / "step-00000004");
  CheckpointStore store(folder, 10);
  store.set_parent(folder / "step-00000004");
  for (int step : {6, 10}) store.write(at_step(step));

  const auto other = leave(root_, aside / "checkpoints" / "step-00000012");
  ASSERT_TRUE(other);
  EXPECT_EQ(steps(folder), (Names{"step-00000004"})) << "the one that leads to it stays";
  EXPECT_EQ(steps(*other / "checkpoints"), (Names{"step-00000006", "step-00000010"}));
  EXPECT_EQ(find_checkpoint(root_), fs::canonical(aside / "checkpoints" / "step-00000012"));
  store.set_parent(aside / "checkpoints" / "step-00000012");
  store.write(at_step(16));
  EXPECT_EQ(find_checkpoint(root_).filename(), "step-00000016");
}

TEST_F(BranchTest, AKillInTheMiddleOfMovingAsideLosesNothingAndTheNextResumeEndsIt) {
  for (int n = 1;; ++n) {
    const fs::path run = root_ / std::to_string(n);
    make_run(run);
    const fs::path from = run / "checkpoints" / "step-00000004";
    const pid_t child = ::fork();
    if (child == 0) {
      int points = 0;
      leave(run, from, [&](std::string_view) {
        if (++points == n) ::kill(::getpid(), SIGKILL);
      });
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    // The intended branch is written first. From then on it is the one that runs resume.
    EXPECT_EQ(find_checkpoint(run).filename(), "step-00000004") << "kill at point " << n;
    leave(run, find_checkpoint(run));
    EXPECT_EQ(steps(run / "checkpoints"), (Names{"step-00000004"})) << "kill at point " << n;
    EXPECT_EQ(steps(run / "abandoned.1" / "checkpoints"), (Names{"step-00000008", "step-00000012"}))
        << "kill at point " << n;
    EXPECT_EQ(text(run / "abandoned.1" / "metrics"), kOldMetrics) << "kill at point " << n;
    EXPECT_EQ(text(run / "metrics"), kNewMetrics) << "kill at point " << n;
    EXPECT_FALSE(fs::exists(run / "abandoned.2")) << "kill at point " << n;
    for (int step : {8, 12})
      EXPECT_EQ(
          read_checkpoint(run / "abandoned.1" / "checkpoints" / fmt::format("step-{:08}", step)),
          at_step(step));
    if (WIFEXITED(status)) break;
    EXPECT_LT(n, 20);
  }
}

TEST_F(CheckpointTest, SafetensorsHasThePublicLayout) {
  const std::vector<float> values = {1.0f, 2.0f};
  const fs::path path = root_ / "x.safetensors";
  write_safetensors(path, std::vector<TensorView>{{"a", {2}, values}});
  std::ifstream in(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(static_cast<unsigned char>(bytes[0]) % 8, 0);
  EXPECT_EQ(bytes.substr(8, header.size()), header);
  EXPECT_EQ(bytes.substr(bytes.size() - 8), std::string("\0\0\x80\x3f\0\0\0\x40", 8));
}

TEST_F(CheckpointTest, DamagedSafetensorsAreRefusedWithAReason) {
  const std::vector<float> values = {1.0f, 2.0f, 3.0f};
  const fs::path path = root_ / "x.safetensors";
  write_safetensors(path, std::vector<TensorView>{{"a", {3}, values}});
  std::ifstream in(path, std::ios::binary);
  const std::string good(std::istreambuf_iterator<char>(in), {});
  const auto refused = [&](const std::string& bytes) -> std::string {
    std::ofstream(path, std::ios::binary) << bytes;
    return test::error_message(ErrorCode::kDataLoss, [&] { const SafetensorsFile file(path); });
  };
  EXPECT_EQ(refused(good), "");
  EXPECT_THAT(refused(""), HasSubstr("empty"));
  EXPECT_THAT(refused(good.substr(0, 6)), HasSubstr("too short"));
  EXPECT_THAT(refused(good.substr(0, 20)), HasSubstr("cut off"));
  EXPECT_THAT(refused(good.substr(0, good.size() - 4)), HasSubstr("impossible offsets"));
  EXPECT_THAT(refused(good + "more"), HasSubstr("do not fill"));
  std::string other_type = good;
  other_type.replace(other_type.find("F32"), 3, "F16");
  EXPECT_THAT(refused(other_type), HasSubstr("impossible offsets"));
}

TEST_F(CheckpointTest, SafetensorsOfOthersAreReadAsF32) {
  // F16 and BF16 tensors, a BOOL tensor that is not read, an F32 tensor that is unaligned, and
  // offsets out of order.
  std::string header = R"({"h":{"dtype":"F16","shape":[4],"data_offsets":[11,19]},)"
                       R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
                       R"("mask":{"dtype":"BOOL","shape":[3],"data_offsets":[4,7]},)"
                       R"("f":{"dtype":"F32","shape":[1],"data_offsets":[7,11]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size() & 0xff);
  bytes[1] = static_cast<char>(header.size() >> 8);
  bytes += header;
  bytes += std::string("\x80\x3f\x20\xc0", 4);  // 1, -2.5 in bf16
  bytes += std::string("\1\0\1", 3);            // the mask
  bytes += std::string("\0\0\x40\x40", 4);      // 3
  // 1, -2^-24, 65504, -infinity in f16
  bytes += std::string("\x00\x3c\x01\x80\xff\x7b\x00\xfc", 8);
  const fs::path path = root_ / "other.safetensors";
  std::ofstream(path, std::ios::binary) << bytes;
  const SafetensorsFile file(path);
  const auto values = [&](const char* name) {
    const auto view = file.tensor(name).values;
    return std::vector<float>(view.begin(), view.end());
  };
  EXPECT_EQ(values("b"), (std::vector<float>{1.0f, -2.5f}));
  EXPECT_EQ(values("f"), (std::vector<float>{3.0f}));
  EXPECT_EQ(values("h"), (std::vector<float>{1.0f, -0x1p-24f, 65504.0f,
                                             -std::numeric_limits<float>::infinity()}));
  EXPECT_EQ(file.tensors().size(), 3u);
  EXPECT_THAT(
      [&] { file.tensor("mask"); },
      test::throws_error(ErrorCode::kIncompatible,
                         testing::Eq("tensor 'mask' is BOOL; F32, F64, BF16 and F16 can be read")));
}

}  // namespace
}  // namespace weft::apps
