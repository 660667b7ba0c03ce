#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "tests/support/fake_world/fake_device.h"
#include "tests/support/fake_world/fake_group.h"
#include "tests/support/fake_world/fake_world.h"
#include "transfer/nccl/device_collectives.h"

namespace weft::test {

/// Communicator of one rank, with the life of an NCCL communicator.
class FakeWorld::Communicator final : public transfer::DeviceCommunicator {
 public:
  Communicator(FakeWorld& world, std::shared_ptr<FakeGroup> group, int rank, std::uint32_t device)
      : world_(world), group_(std::move(group)), rank_(rank), device_(device) {
    group_->device_of_rank.at(rank) = device;
    ++world_.created_;
  }
  ~Communicator() override {
    const std::lock_guard lock(world_.mutex_);
    if (std::ssize(group_->finalized) != group_->size) let_go();
  }

  State poll() override {
    const std::lock_guard lock(world_.mutex_);
    world_.progress();
    if (!world_.error_.empty()) throw_error(ErrorCode::kInternal, "{}", world_.error_);
    if (group_->aborted[rank_]) return State::kReady;
    bool busy = finalizing_ && std::ssize(group_->finalized) != group_->size;
    for (std::size_t rank = 0; rank < group_->device_of_rank.size(); ++rank) {
      const int device = group_->device_of_rank[rank];
      busy = busy || device < 0;
      if (world_.options_.sees_death && device >= 0 && world_.dead_.contains(device))
        throw_error(ErrorCode::kPeerDied, "rank {} of the communicator has died", rank);
    }
    busy = busy || (world_.options_.connects_lazily && connecting());
    return busy ? State::kBusy : State::kReady;
  }

  void enqueue(std::span<const transfer::DeviceCall> calls, Stream& stream) override {
    {
      const std::lock_guard lock(world_.mutex_);
      for (const transfer::DeviceCall& call : calls) {
        if (call.kind == transfer::CallKind::kSend || call.kind == transfer::CallKind::kReceive)
          group_->met.emplace(rank_, call.peer);
        else group_->used.insert(rank_);
      }
    }
    std::vector<PostedCall> posted;
    std::string what = "round:";
    for (const transfer::DeviceCall& call : calls) {
      posted.push_back(std::make_shared<Posted>(Posted{call}));
      what += fmt::format(" {}({}, {})", to_string(call.kind), call.count, call.peer);
    }
    world_.perform(stream, device_, what,
                   [&world = world_, group = group_, rank = rank_, posted = std::move(posted),
                    real = memory_of(stream), begun = false]() mutable {
                     if (group->aborted[rank]) return true;
                     if (!begun) {
                       begun = true;
                       for (const PostedCall& call : posted) {
                         locate(call->call, group->size, real);
                         world.note_error(group->post(rank, call));
                       }
                       world.changed_.notify_all();
                     }
                     return std::all_of(posted.begin(), posted.end(),
                                        [](const PostedCall& call) { return call->done; });
                   });
  }

  void finalize() override {
    const std::lock_guard lock(world_.mutex_);
    finalizing_ = true;
    group_->finalized.insert(rank_);
  }
  void stop() noexcept override {
    const std::lock_guard lock(world_.mutex_);
    let_go();
  }
  void abort() noexcept override { stop(); }
  std::unique_ptr<transfer::DeviceCommunicator> shrink(std::span<const int> excluded) override {
    const std::lock_guard lock(world_.mutex_);
    WEFT_CHECK(group_->aborted[static_cast<std::size_t>(rank_)], "shrink() comes after stop()");
    std::string& id = group_->shrunk[{excluded.begin(), excluded.end()}];
    if (id.empty()) id = fmt::format("shrunk {}", ++world_.ids_);
    auto& rest = world_.groups_[id];
    if (rest == nullptr) rest = std::make_shared<FakeGroup>(group_->size - std::ssize(excluded));
    const auto before =
        std::count_if(excluded.begin(), excluded.end(), [&](int rank) { return rank < rank_; });
    return std::make_unique<Communicator>(world_, rest, rank_ - static_cast<int>(before), device_);
  }

 private:
  static void locate(transfer::DeviceCall& call, int size,
                     const std::function<std::byte*(const std::byte*, std::size_t)>& real) {
    const std::size_t bytes = call.count * size_of(call.dtype), all = bytes * size;
    if (call.from != nullptr)
      call.from = real(call.from, call.kind == transfer::CallKind::kReduceScatter ? all : bytes);
    if (call.to != nullptr)
      call.to = real(call.to, call.kind == transfer::CallKind::kAllGather ? all : bytes);
  }
  /// True if a peer of this rank's operations has not joined yet.
  bool connecting() const {
    return (group_->used.contains(rank_) && std::ssize(group_->used) < group_->size) ||
           std::any_of(group_->met.begin(), group_->met.end(), [&](const auto& pair) {
             return pair.first == rank_ && !group_->met.contains({pair.second, rank_});
           });
  }
  void let_go() {
    group_->aborted[rank_] = true;
    world_.changed_.notify_all();
    world_.progress();
  }

  FakeWorld& world_;
  std::shared_ptr<FakeGroup> group_;  // shared with the other members and with tasks
  const int rank_;
  const std::uint32_t device_;
  bool finalizing_ = false;
};

}  // namespace weft::test
