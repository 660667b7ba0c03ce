#include "tests/contract/kernels/shared_runners.h"
#include "tests/support/thrown_error.h"

#include <gtest/gtest.h>

namespace weft::test {
namespace {

/// Runner whose GPU works until it is lost.
struct FakeRunner {
  bool& lost;
  int& probes;

  void run_illegal_access() {
    lost = true;
    throw_error(ErrorCode::kInternal, "gelu: an illegal memory access was encountered");
  }
  void probe() {
    ++probes;
    if (lost) throw_error(ErrorCode::kInternal, "a sum: the GPU fails all calls");
  }
};

class SharedRunnersTest : public testing::Test {
 protected:
  KindOf<FakeRunner> kind(const std::string& name, bool on_gpu) {
    return {name,
            [this] {
              ++made;
              return std::make_unique<FakeRunner>(FakeRunner{lost, probes});
            },
            on_gpu};
  }
  /// Calls work() on a runner of the kind. Returns the message of the error that passes through.
  std::string watch(const KindOf<FakeRunner>& kind, const std::function<void(FakeRunner&)>& work) {
    FakeRunner* const runner = runners.find(kind).runner;
    return error_of([&] { runners.watch(kind, [&] { work(*runner); }); }).message();
  }

  bool lost = false;
  int probes = 0, made = 0;
  SharedRunners<FakeRunner> runners;
  const KindOf<FakeRunner> gpu = kind("cuda", true), recorded = kind("cuda_recorded", true),
                           host = kind("cpu", false);
};

TEST_F(SharedRunnersTest, AreMadeOnce) {
  FakeRunner* const first = runners.find(gpu).runner;
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(runners.find(gpu).runner, first);
  EXPECT_NE(runners.find(recorded).runner, first);
  EXPECT_EQ(made, 2);
}

TEST_F(SharedRunnersTest, AfterALostGpuAllTestsOnItAreSkippedWithTheFirstError) {
  const std::string skip =
      "skipped: this process has lost its GPU: gelu: an illegal memory access was encountered";
  EXPECT_EQ(watch(gpu, [](FakeRunner& runner) { runner.run_illegal_access(); }),
            "gelu: an illegal memory access was encountered");
  EXPECT_EQ(runners.find(gpu).runner, nullptr);
  EXPECT_EQ(runners.find(gpu).skip_reason, skip);
  EXPECT_EQ(runners.find(recorded).skip_reason, skip);
  EXPECT_EQ(made, 1) << "a runner was made on a lost GPU";
  EXPECT_NE(runners.find(host).runner, nullptr);
}

TEST_F(SharedRunnersTest, AnErrorAfterwardsDoesNotReplaceTheFirst) {
  FakeRunner* const runner = runners.find(gpu).runner;
  EXPECT_THAT([&] { runners.watch(gpu, [&] { runner->run_illegal_access(); }); },
              throws_error(ErrorCode::kInternal, "an illegal memory access"));
  EXPECT_THAT([&] { runners.watch(gpu, [&] { runner->probe(); }); },
              throws_error(ErrorCode::kInternal, "the GPU fails all calls"));
  EXPECT_EQ(runners.find(gpu).skip_reason,
            "skipped: this process has lost its GPU: gelu: an illegal memory access was "
            "encountered");
}

TEST_F(SharedRunnersTest, AnErrorThatTheGpuSurvivesSkipsNothing) {
  for (const ErrorCode code : {ErrorCode::kInternal, ErrorCode::kInvalidArgument}) {
    EXPECT_EQ(watch(gpu, [&](FakeRunner&) { throw Error(code, "wrong"); }), "wrong");
    EXPECT_NE(runners.find(gpu).runner, nullptr);
  }
  EXPECT_EQ(probes, 1) << "an invalid argument says nothing about the GPU";
}

TEST_F(SharedRunnersTest, AnErrorOfTheCpuLosesNoGpu) {
  EXPECT_EQ(watch(host, [](FakeRunner& runner) { runner.run_illegal_access(); }),
            "gelu: an illegal memory access was encountered");
  EXPECT_NE(runners.find(host).runner, nullptr);
  EXPECT_NE(runners.find(gpu).runner, nullptr);
}

TEST_F(SharedRunnersTest, AMissingRunnerIsSoughtOnce) {
  int sought = 0;
  const KindOf<FakeRunner> missing{"cuda",
                                   [&]() -> std::unique_ptr<FakeRunner> {
                                     ++sought;
                                     throw_error(ErrorCode::kFailedPrecondition, "no driver");
                                   },
                                   true};
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(runners.find(missing).runner, nullptr);
    EXPECT_EQ(runners.find(missing).skip_reason, "skipped: no driver");
  }
  EXPECT_EQ(sought, 1);
}

}  // namespace
}  // namespace weft::test
