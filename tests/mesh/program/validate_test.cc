#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "mesh/program/compile.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {
namespace {

using testing::HasSubstr;

/// Makes the program of device `self` of a pair that exchanges two tensors: device 0 sends in
/// transfer 0, device 1 in transfer 1.
Program exchange(std::uint32_t self, std::vector<Instruction> instructions) {
  Program program;
  program.name = "test";
  program.device = transfer::DeviceId(self);
  program.device_name = "mesh[" + std::to_string(self) + "]";
  for (std::uint32_t op = 0; op < 2; ++op) {
    Transfer transfer;
    transfer.name = "t" + std::to_string(op);
    transfer.op = op;
    transfer::FlowRole stream;
    stream.bytes = 4;
    stream.chunk_bytes = 4;
    if (self == op) stream.children = {transfer::DeviceId(1 - self)};
    if (self != op) stream.parent = transfer::DeviceId(1 - self);
    transfer::DevicePart part;
    part.device = program.device;
    part.streams = {stream};
    transfer.device_work = part;
    program.transfers.push_back(transfer);
  }
  program.num_handles = 2;
  program.instructions = std::move(instructions);
  return program;
}

std::string error_of(const std::vector<Program>& programs) {
  return test::error_message(ErrorCode::kInternal, [&] { validate(programs); });
}

Start start(std::uint32_t transfer) { return {transfer, 0, -1, -1, transfer}; }

TEST(ValidatePrograms, MatchingProgramsPass) {
  EXPECT_EQ(error_of({exchange(0, {start(0), start(1), Wait{0}, Wait{1}}),
                      exchange(1, {start(1), start(0), Wait{1}, Wait{0}})}),
            "");
}

TEST(ValidatePrograms, WaitingBeforeTheOtherCanStartIsADeadlockThatNamesBoth) {
  const std::string text = error_of({exchange(0, {start(0), Wait{0}, start(1), Wait{1}}),
                                     exchange(1, {start(1), Wait{1}, start(0), Wait{0}})});
  EXPECT_THAT(text, HasSubstr("mesh[0] is at the beginning (next: the end of the step): waits for "
                              "'t0' of microbatch 0, which mesh[1] has not started"));
  EXPECT_THAT(text, HasSubstr("mesh[1] is at the beginning (next: the end of the step): waits for "
                              "'t1' of microbatch 0, which mesh[0] has not started"));
  EXPECT_THAT(
      text,
      HasSubstr("deadlock: these devices wait for each other: mesh[0] -> mesh[1] -> mesh[0]"));
}

TEST(ValidatePrograms, APeerThatTakesNoPartIsNamed) {
  EXPECT_THAT(error_of({exchange(0, {start(0), start(1), Wait{0}, Wait{1}}), exchange(1, {})}),
              HasSubstr("never waited for"));
  Program silent = exchange(1, {});
  silent.num_handles = 0;
  EXPECT_THAT(error_of({exchange(0, {start(0), start(1), Wait{0}, Wait{1}}), silent}),
              HasSubstr("its peer device 1 does not"));
}

TEST(ValidatePrograms, AWaitWithoutAStartIsRefused) {
  EXPECT_THAT(error_of({exchange(0, {Wait{0}, start(0), start(1), Wait{1}})}),
              HasSubstr("before it starts"));
}

/// Returns the error of the first device's program, which sends %0 in transfer 0 and receives %1 in
/// transfer 1. Both buffers lie in one persistent block, %1 at the given offset.
std::string memory_error(std::uint64_t offset_of_second, std::vector<Instruction> instructions) {
  Program program = exchange(0, std::move(instructions));
  const TensorType type{DType::kF32, {4}};
  program.persistents = {{"block", 64}};
  program.buffers = {{type, 0, 0}, {type, 0, offset_of_second}, {type, -1, 0}};
  return error_of({program, exchange(1, {start(0), start(1), Wait{0}, Wait{1}})});
}

TEST(ValidatePrograms, MemoryThatATransferFillsIsLeftAlone) {
  const Start send{0, 0, 0, -1, 0}, receive{1, 0, -1, 1, 1};
  EXPECT_EQ(memory_error(16, {send, receive, Wait{1}, Accumulate{1, 2, false},
                              Accumulate{0, 2, false}, Wait{0}}),
            "");
  EXPECT_THAT(memory_error(16, {send, receive, Accumulate{1, 2, false}, Wait{1}, Wait{0}}),
              HasSubstr("instruction 2 of mesh[0] reads %1 while transfer 't1' fills it"));
  EXPECT_THAT(memory_error(16, {send, receive, Wait{1}, Accumulate{2, 0, false}, Wait{0}}),
              HasSubstr("instruction 3 of mesh[0] writes %0 while transfer 't0' still reads it"));
  EXPECT_THAT(memory_error(12, {send, receive, Wait{1}, Wait{0}}),
              HasSubstr("instruction 1 of mesh[0] writes %1 while transfer 't0' still reads it"));
}

/// Returns the first memory conflict, found by comparing each instruction with every transfer under
/// way.
std::string clash_by_definition(const Program& program) {
  struct Bytes {
    std::int32_t block = -1;
    std::uint64_t begin = 0, end = 0;
    bool meets(const Bytes& other) const {
      return block == other.block && begin < other.end && other.begin < end;
    }
  };
  const auto bytes_of = [&](std::int64_t buffer) {
    const Buffer& b = program.buffers[buffer];
    return Bytes{b.persistent, b.offset, b.offset + b.type.bytes()};
  };
  std::map<std::uint32_t, Start> under_way;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    std::string clash;
    const auto touch = [&](std::int64_t buffer, const std::string& does) {
      if (buffer < 0) return;
      for (const auto& [handle, other] : under_way) {
        if (!clash.empty()) return;
        const bool fills =
            other.destination >= 0 && bytes_of(other.destination).meets(bytes_of(buffer));
        const bool reads = other.source >= 0 && bytes_of(other.source).meets(bytes_of(buffer));
        if (fills || (reads && does == "writes"))
          clash = fmt::format(
              "instruction {} of {} {} %{} while transfer '{}' {} it", i, program.device_name, does,
              buffer, program.transfers[other.transfer].name, fills ? "fills" : "still reads");
      }
    };
    if (const auto* start = std::get_if<Start>(&program.instructions[i])) {
      touch(start->source, "reads");
      touch(start->destination, "writes");
      under_way[start->handle] = *start;
    } else if (const auto* wait = std::get_if<Wait>(&program.instructions[i])) {
      under_way.erase(wait->handle);
    } else if (const auto* accumulate = std::get_if<Accumulate>(&program.instructions[i])) {
      touch(accumulate->source, "reads");
      touch(accumulate->destination, "writes");
    }
    if (!clash.empty()) return clash;
  }
  return "";
}

/// Makes a program of one device with overlapping buffers in three blocks and the arena, and
/// transfers that start and end at random.
Program random_program(std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::int64_t>(random() % n); };
  Program program;
  program.name = "random";
  program.device_name = "mesh[0]";
  program.persistents = {{"a", 4096}, {"b", 4096}, {"c", 4096}};
  const std::size_t spread = 1 + random() % 400;
  for (int i = 0; i < 40; ++i)
    program.buffers.push_back({TensorType{DType::kF32, {1 + below(8)}},
                               static_cast<std::int32_t>(below(4)) - 1,
                               4 * static_cast<std::uint64_t>(below(spread))});
  std::vector<std::uint32_t> open;
  const auto wait = [&](std::size_t at) {
    program.instructions.emplace_back(Wait{open[at]});
    open.erase(open.begin() + at);
  };
  for (int i = 0; i < 60; ++i) {
    const auto any = [&] { return static_cast<std::int32_t>(below(program.buffers.size())); };
    if (const std::int64_t what = below(3); what == 0) {
      program.instructions.emplace_back(
          Accumulate{static_cast<std::uint32_t>(any()), static_cast<std::uint32_t>(any()), false});
    } else if (what == 1 || open.empty()) {
      const std::uint32_t handle = program.num_handles++;
      Transfer transfer;
      transfer.name = "t" + std::to_string(handle);
      transfer.op = handle;
      program.transfers.push_back(transfer);
      const std::int64_t ends = below(3);
      program.instructions.emplace_back(
          Start{handle, 0, ends == 0 ? -1 : any(), ends == 1 ? -1 : any(), handle});
      open.push_back(handle);
    } else {
      wait(below(open.size()));
    }
  }
  while (!open.empty()) wait(0);
  return program;
}

TEST(ValidatePrograms, OfRandomProgramsTheFirstClashIsNamed) {
  const std::uint64_t seed = 7;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  int passed = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    const Program program = random_program(random);
    const std::string expected = clash_by_definition(program), text = error_of({program});
    if (expected.empty()) EXPECT_EQ(text, "") << "round " << round;
    else EXPECT_THAT(text, HasSubstr(expected)) << "round " << round;
    ++(expected.empty() ? passed : refused);
  }
  EXPECT_GT(passed, 20);
  EXPECT_GT(refused, 1000);
}

// A stage that sends without receiving, at the end of a step of 100,000 microbatches. Comparing
// each instruction with all transfers under way took minutes.
TEST(ValidatePrograms, ManyTransfersUnderWayAreCheckedInSeconds) {
  constexpr std::uint32_t kTransfers = 100'000;
  Program program;
  program.name = "many";
  program.device_name = "mesh[0]";
  program.transfers = {{}};
  program.num_handles = kTransfers;
  for (std::uint32_t i = 0; i < kTransfers; ++i) {
    program.buffers.push_back({TensorType{DType::kF32, {16}}, -1, std::uint64_t{64} * i});
    program.instructions.emplace_back(Accumulate{i, i, true});
    program.instructions.emplace_back(
        Start{0, static_cast<std::int32_t>(i), static_cast<std::int32_t>(i), -1, i});
  }
  for (std::uint32_t i = 0; i < kTransfers; ++i) program.instructions.emplace_back(Wait{i});
  EXPECT_EQ(error_of({program}), "");
}

}  // namespace
}  // namespace weft::mesh
