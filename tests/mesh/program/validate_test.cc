#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "mesh/program/compile.h"

namespace weft::mesh {
namespace {

using testing::HasSubstr;

/// Device `self` of a pair that exchanges two tensors; `order` says which transfer it waits for first.
Program exchange(std::uint32_t self, std::vector<Instruction> instructions) {
  Program program;
  program.name = "test";
  program.device = transfer::DeviceId(self);
  program.device_name = "mesh[" + std::to_string(self) + "]";
  for (std::uint32_t op = 0; op < 2; ++op) {
    Transfer transfer;
    transfer.name = "t" + std::to_string(op);
    transfer.op = op;
    transfer.part.device = program.device;
    transfer::Stream stream;
    stream.bytes = 4;
    stream.chunk_bytes = 4;
    if (self == op) stream.children = {transfer::DeviceId(1 - self)};
    if (self != op) stream.parent = transfer::DeviceId(1 - self);
    transfer.part.streams.push_back(stream);
    program.transfers.push_back(transfer);
  }
  program.num_handles = 2;
  program.instructions = std::move(instructions);
  return program;
}

std::string error_of(const std::vector<Program>& programs) {
  try {
    validate(programs);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

Start start(std::uint32_t transfer) { return {transfer, 0, -1, -1, transfer}; }

TEST(ValidatePrograms, MatchingProgramsPass) {
  EXPECT_EQ(error_of({exchange(0, {start(0), start(1), Wait{0}, Wait{1}}), exchange(1, {start(1), start(0), Wait{1}, Wait{0}})}),
            "");
}

TEST(ValidatePrograms, WaitingBeforeTheOtherCanStartIsADeadlockThatNamesBoth) {
  const std::string text =
      error_of({exchange(0, {start(0), Wait{0}, start(1), Wait{1}}), exchange(1, {start(1), Wait{1}, start(0), Wait{0}})});
  EXPECT_THAT(text,
              HasSubstr("mesh[0] is at the beginning (next the end of the step): waits for 't0' of microbatch 0, which mesh[1] "
                        "has not begun"));
  EXPECT_THAT(text,
              HasSubstr("mesh[1] is at the beginning (next the end of the step): waits for 't1' of microbatch 0, which mesh[0] "
                        "has not begun"));
  EXPECT_THAT(text, HasSubstr("the waits form a cycle: mesh[0] -> mesh[1] -> mesh[0]"));
}

TEST(ValidatePrograms, APeerThatTakesNoPartIsNamed) {
  EXPECT_THAT(error_of({exchange(0, {start(0), start(1), Wait{0}, Wait{1}}), exchange(1, {})}), HasSubstr("never waited for"));
  Program silent = exchange(1, {});
  silent.num_handles = 0;
  EXPECT_THAT(error_of({exchange(0, {start(0), start(1), Wait{0}, Wait{1}}), silent}), HasSubstr("its peer device 1 does not"));
}

TEST(ValidatePrograms, AWaitWithoutAStartIsRefused) {
  EXPECT_THAT(error_of({exchange(0, {Wait{0}, start(0), start(1), Wait{1}})}), HasSubstr("before it starts"));
}

/// The first device, which sends %0 in transfer 0 and gets %1 in transfer 1; both lie in one block of memory, as told.
std::string memory_error(std::uint64_t offset_of_second, std::vector<Instruction> instructions) {
  Program program = exchange(0, std::move(instructions));
  const TensorType type{DType::kF32, {4}};
  program.persistents = {{"block", 64}};
  program.buffers = {{type, 0, 0}, {type, 0, offset_of_second}, {type, -1, 0}};
  return error_of({program, exchange(1, {start(0), start(1), Wait{0}, Wait{1}})});
}

TEST(ValidatePrograms, MemoryThatATransferFillsIsLeftAlone) {
  const Start send{0, 0, 0, -1, 0}, receive{1, 0, -1, 1, 1};
  EXPECT_EQ(memory_error(16, {send, receive, Wait{1}, Accumulate{1, 2, false}, Accumulate{0, 2, false}, Wait{0}}), "");
  EXPECT_THAT(memory_error(16, {send, receive, Accumulate{1, 2, false}, Wait{1}, Wait{0}}),
              HasSubstr("instruction 2 of mesh[0] reads %1, which 't1' fills at that time"));
  EXPECT_THAT(memory_error(16, {send, receive, Wait{1}, Accumulate{2, 0, false}, Wait{0}}),
              HasSubstr("instruction 3 of mesh[0] writes %0, which 't0' still reads at that time"));
  EXPECT_THAT(memory_error(12, {send, receive, Wait{1}, Wait{0}}),
              HasSubstr("instruction 1 of mesh[0] writes %1, which 't0' still reads at that time"));
}

}  // namespace
}  // namespace weft::mesh
