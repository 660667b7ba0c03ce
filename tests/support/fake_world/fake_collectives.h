#pragma once

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "tests/support/fake_world/fake_communicator.h"
#include "tests/support/fake_world/fake_device.h"
#include "tests/support/fake_world/fake_world.h"
#include "tests/support/fake_world/host_sum.h"
#include "transfer/nccl/device_collectives.h"

namespace weft::test {

/// Collectives of one device.
class FakeWorld::Collectives final : public transfer::DeviceCollectives {
 public:
  Collectives(FakeWorld& world, std::uint32_t device) : world_(world), device_(device) {}

  std::string description() const override { return "fake collectives"; }
  std::vector<std::byte> make_id() override {
    const std::lock_guard lock(world_.mutex_);
    const std::string id = fmt::format("made {}", ++world_.ids_);
    const auto bytes = std::as_bytes(std::span(id));
    return {bytes.begin(), bytes.end()};
  }
  std::unique_ptr<transfer::DeviceCommunicator> create(std::span<const std::byte> id, int size,
                                                       int rank, const std::string&) override {
    const std::lock_guard lock(world_.mutex_);
    auto& group = world_.groups_[std::string(reinterpret_cast<const char*>(id.data()), id.size())];
    if (group == nullptr) group = std::make_shared<FakeGroup>(size);
    WEFT_CHECK(group->size == size && group->device_of_rank[static_cast<std::size_t>(rank)] < 0,
               "an id is used for two communicators");
    return std::make_unique<Communicator>(world_, group, rank, device_);
  }
  void copy(std::span<const transfer::DeviceCopy> copies, Stream& stream) override {
    for (const transfer::DeviceCopy& copy : copies) {
      const std::vector<transfer::StridedCopy::Dimension> outer(copy.outer.begin(),
                                                                copy.outer.end());
      world_.perform(stream, device_, "copy", [copy, outer, real = memory_of(stream)] {
        std::size_t from_bytes = copy.run_bytes, to_bytes = copy.run_bytes;
        for (const auto& dimension : outer) {
          from_bytes += (dimension.count - 1) * dimension.from_stride;
          to_bytes += (dimension.count - 1) * dimension.to_stride;
        }
        copy_box(real(copy.from, from_bytes), real(copy.to, to_bytes), copy.run_bytes, outer);
        return true;
      });
    }
  }
  void sum(const transfer::DeviceSum& sum, Stream& stream) override {
    std::vector<const std::byte*> terms(sum.terms.begin(), sum.terms.end());
    world_.perform(stream, device_, "sum",
                   [sum, terms = std::move(terms), real = memory_of(stream)]() mutable {
                     const std::size_t bytes = sum.count * size_of(sum.dtype);
                     for (const std::byte*& term : terms) term = real(term, bytes);
                     add_up(sum.dtype, sum.count, terms, real(sum.to, bytes));
                     return true;
                   });
  }

 private:
  static void copy_box(const std::byte* from, std::byte* to, std::uint64_t run_bytes,
                       std::span<const transfer::StridedCopy::Dimension> outer) {
    if (outer.empty()) {
      std::memcpy(to, from, run_bytes);
      return;
    }
    for (std::uint64_t i = 0; i < outer[0].count; ++i)
      copy_box(from + i * outer[0].from_stride, to + i * outer[0].to_stride, run_bytes,
               outer.subspan(1));
  }

  FakeWorld& world_;
  const std::uint32_t device_;
};

}  // namespace weft::test
