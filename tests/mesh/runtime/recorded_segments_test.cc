#include "mesh/runtime/recorded_segments.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "mesh/runtime/storage.h"
#include "tests/support/detached_device.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {
namespace {

/// Stream that only counts recordings and replays.
class RecordingStream final : public Stream {
 public:
  bool records = true;
  int recorded = 0, alive = 0, replayed = 0, synchronized = 0;

  std::unique_ptr<Recording> record_work(const std::function<void()>& work) override {
    work();
    if (!records) return nullptr;
    ++recorded;
    return std::make_unique<Counted>(alive);
  }
  void replay(const Recording&) override { ++replayed; }
  void synchronize() override { ++synchronized; }

  void run(const Op&, std::span<const ConstTensorRef>, std::span<const TensorRef>,
           std::span<const OutputMode>) override {}
  void add(std::span<const float>, std::span<float>) override {}
  void copy(std::span<const std::byte>, std::span<std::byte>) override {}
  void fill_zero(std::span<std::byte>) override {}
  void adamw(const AdamW&, std::span<const AdamWParameter>) override {}
  void sums_of_squares(std::span<const std::span<const float>>, std::span<double>) override {}
  std::unique_ptr<Event> record() override { return nullptr; }
  void wait(const Event&) override {}

 private:
  struct Counted final : Recording {
    explicit Counted(int& count) : alive(count) { ++alive; }
    ~Counted() override { --alive; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    int& alive;
  };
};

/// Makes a program with three segments of two, three and two ops. The first and the last are equal.
Program three_segments(std::string name = "train", std::uint64_t arena_bytes = 64) {
  Program program;
  program.name = std::move(name);
  program.arena_bytes = arena_bytes;
  program.buffers = {{{DType::kF32, {8}}, -1, 0}};
  program.ops = {{OpKind::kGelu, {}}};
  const mesh::Run run{0, {0}, {0}};
  program.instructions = {BeginAction{}, run, run, Wait{}, run, run, run, Wait{}, run, run};
  return program;
}

/// Runs one step and returns how often ops were queued, directly or for a recording.
int step(RecordedSegments& graphs, const Program& program, Stream& stream) {
  int called = 0;
  RecordedSegments::Graphs& of_program = graphs.of(program);
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    if (const CaptureSegment* const segment = of_program.beginning_at(i))
      of_program.queue(*segment, stream, [&] { ++called; });
  }
  return called;
}

TEST(RecordedSegments, WorkIsQueuedThenRecordedThenReplayed) {
  RecordingStream stream;
  RecordedSegments graphs;
  const Program program = three_segments();
  EXPECT_EQ(graphs.of(program).beginning_at(0), nullptr);
  EXPECT_EQ(graphs.of(program).beginning_at(2), nullptr);
  EXPECT_EQ(step(graphs, program, stream), 3);
  EXPECT_EQ(stream.recorded, 1) << "the last, which does what the first has done";
  EXPECT_EQ(step(graphs, program, stream), 1);
  EXPECT_EQ(stream.recorded, 2);
  EXPECT_EQ(step(graphs, program, stream), 0);
  EXPECT_EQ(stream.replayed, 2 + 3);
}

TEST(RecordedSegments, AStreamThatRecordsNothingIsAskedOnce) {
  RecordingStream stream;
  stream.records = false;
  RecordedSegments graphs;
  const Program program = three_segments();
  step(graphs, program, stream);
  stream.records = true;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step(graphs, program, stream), 3);
  EXPECT_EQ(stream.recorded, 0);
}

TEST(RecordedSegments, WorkThatFailsIsNotRecordedAndCanBeQueuedAgain) {
  RecordingStream stream;
  RecordedSegments graphs;
  const Program program = three_segments();
  RecordedSegments::Graphs& of_program = graphs.of(program);
  const CaptureSegment& segment = *of_program.beginning_at(1);
  const auto fail = [] { throw Error(ErrorCode::kInternal, "on purpose"); };
  EXPECT_THAT([&] { of_program.queue(segment, stream, fail); },
              test::throws_error(ErrorCode::kInternal, "on purpose"));
  of_program.queue(segment, stream, [] {});
  EXPECT_EQ(stream.recorded, 0) << "it has never been done to the end";
  EXPECT_THAT([&] { of_program.queue(segment, stream, fail); },
              test::throws_error(ErrorCode::kInternal, "on purpose"));
  EXPECT_EQ(stream.recorded, 0);
  of_program.queue(segment, stream, [] {});
  EXPECT_EQ(stream.recorded, 1);
}

TEST(RecordedSegments, SegmentsBeyondTheLimitAreNotRecordedUntilOthersAreForgotten) {
  RecordingStream stream;
  RecordedSegments graphs(4);
  const Program program = three_segments();
  for (int i = 0; i < 3; ++i) step(graphs, program, stream);
  EXPECT_EQ(stream.recorded, 1);
  EXPECT_EQ(step(graphs, program, stream), 1);
  graphs.forget("train");
  EXPECT_EQ(stream.alive, 0);
  step(graphs, program, stream);
  EXPECT_EQ(stream.alive, 1);
}

TEST(RecordedSegments,
     AreForgottenWhenTheirProgramIsReplacedOrTheMemoryMovesAndTheStreamIsWaitedFor) {
  test::DetachedDevice device;
  RecordingStream stream;
  Storage storage(device);
  const Program train = three_segments("train"), validate = three_segments("validate");
  for (const Program* program : {&train, &validate}) {
    storage.provide(*program, stream);
    step(storage.graphs(), *program, stream);
  }
  EXPECT_EQ(stream.alive, 2);
  const int before = stream.synchronized;
  Program shorter = train;
  shorter.instructions.resize(3);
  storage.provide(shorter, stream);
  EXPECT_EQ(stream.alive, 1);
  EXPECT_GT(stream.synchronized, before + 1);
  EXPECT_EQ(step(storage.graphs(), shorter, stream), 1);
  storage.provide(three_segments("gather", 6400), stream);
  EXPECT_EQ(stream.alive, 0);
  EXPECT_EQ(step(storage.graphs(), validate, stream), 3) << "anew";
}

}  // namespace
}  // namespace weft::mesh
