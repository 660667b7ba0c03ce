#include "apps/bench/bench_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace weft::apps {
namespace {

/// Benchmark that measures nothing. Its command line sets `status`, which ends the program.
class FakeBench final : public BenchProgram {
 public:
  FakeBench(std::string name, int status) : name_(std::move(name)), status_(status) {}

  Description description() const override {
    return {name_, "Does nothing.", "weft bench " + name_, "runs/nothing", "nothing"};
  }
  void add_options(CLI::App&) override {}
  std::optional<int> complete_options(const CLI::App&) override { return status_; }
  int measure(const BenchOutput&) override { return 99; }

 private:
  const std::string name_;
  const int status_;
};

/// Exit status and standard error of a program with the benchmarks `first` and `second`.
struct Ended {
  int status;
  std::string error;
};

Ended run(std::vector<std::string> words) {
  std::vector<std::unique_ptr<BenchProgram>> benchmarks;
  benchmarks.push_back(std::make_unique<FakeBench>("first", 11));
  benchmarks.push_back(std::make_unique<FakeBench>("second", 22));
  words.insert(words.begin(), "weft-bench");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStderr();
  const int status = run_bench_program(static_cast<int>(argv.size()), argv.data(), benchmarks);
  return {status, testing::internal::GetCapturedStderr()};
}

TEST(BenchProgram, TheFirstArgumentNamesTheBenchmark) {
  EXPECT_EQ(run({"first"}).status, 11);
  EXPECT_EQ(run({"second", "--json", "-"}).status, 22);
}

TEST(BenchProgram, AnUnknownNameIsRefusedWithTheNamesThatExist) {
  const Ended ended = run({"third"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(
      ended.error,
      "weft bench: there is no benchmark 'third'; run one of weft bench first --help, weft bench "
      "second --help\n");
  EXPECT_THAT(run({}).error, testing::StartsWith(
                                 "weft bench: no benchmark is named; run one of weft bench first"));
}

TEST(BenchProgram, ErrorsOfTheCommandLineNameTheBenchmark) {
  const Ended ended = run({"first", "--frobnicate"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.error, testing::HasSubstr("weft bench first"));
}

}  // namespace
}  // namespace weft::apps
