#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/device/device.h"
#include "core/ops/op_definition.h"

namespace weft::test {

/// Device that works inline and adds up the time of each kind of work. One thread at a time.
class TimedDevice final : public Device {
 public:
  TimedDevice(Device& device, const Clock& clock) : device_(device), clock_(clock) {}

  std::string description() const override { return device_.description(); }
  DeviceMemory allocate(std::size_t bytes) override { return device_.allocate(bytes); }
  std::unique_ptr<Stream> create_stream() override {
    return std::make_unique<TimedStream>(*this, device_.create_stream());
  }
  bool is_host_memory() const override { return device_.is_host_memory(); }
  std::vector<std::string> notes() const override { return device_.notes(); }

  void clear() { entries_.clear(); }
  /// Prints a line per kind of work: milliseconds per step, share, GFLOP/s, GB/s.
  void print(int steps) const {
    double total = 0;
    std::vector<std::pair<double, std::string>> order;
    for (const auto& [name, entry] : entries_) {
      total += entry.seconds;
      order.emplace_back(-entry.seconds, name);
    }
    std::ranges::sort(order);
    for (const auto& [negative, name] : order) {
      const Entry& entry = entries_.at(name);
      fmt::print("{:52} {:8.2f} ms {:5.1f} % {:7.1f} GFLOP/s {:6.1f} GB/s {:4} runs\n", name,
                 entry.seconds * 1e3 / steps, 100 * entry.seconds / total,
                 entry.flops / entry.seconds * 1e-9, entry.bytes / entry.seconds * 1e-9,
                 entry.runs / steps);
    }
    fmt::print("{:52} {:8.2f} ms\n", "all", total * 1e3 / steps);
  }

 private:
  struct Entry {
    double seconds = 0, flops = 0, bytes = 0;
    int runs = 0;
  };

  class TimedStream final : public Stream {
   public:
    TimedStream(TimedDevice& device, std::unique_ptr<Stream> stream)
        : device_(device), stream_(std::move(stream)) {}

    void run(const Op& op, std::span<const ConstTensorRef> inputs,
             std::span<const TensorRef> outputs, std::span<const OutputMode> modes) override {
      std::vector<TensorType> types;
      std::string name{to_string(op.kind)};
      for (const ConstTensorRef& input : inputs) {
        types.push_back(input.type);
        name += to_string(input.type.shape);
      }
      timed(name, cost(op, types), [&] { stream_->run(op, inputs, outputs, modes); });
    }
    void add(std::span<const float> from, std::span<float> to) override {
      timed("add in place", {}, [&] { stream_->add(from, to); });
    }
    void copy(std::span<const std::byte> from, std::span<std::byte> to) override {
      timed("copy", {}, [&] { stream_->copy(from, to); });
    }
    void fill_zero(std::span<std::byte> memory) override { stream_->fill_zero(memory); }
    void adamw(const AdamW& step, std::span<const AdamWParameter> parameters) override {
      double elements = 0;
      for (const AdamWParameter& parameter : parameters) elements += parameter.value.size();
      timed("adamw", {0, 28 * elements}, [&] { stream_->adamw(step, parameters); });
    }
    void sums_of_squares(std::span<const std::span<const float>> tensors,
                         std::span<double> results) override {
      double elements = 0;
      for (const auto& tensor : tensors) elements += tensor.size();
      timed("sum of squares", {0, 4 * elements},
            [&] { stream_->sums_of_squares(tensors, results); });
    }
    std::unique_ptr<Event> record() override { return stream_->record(); }
    void wait(const Event& event) override { stream_->wait(event); }
    void synchronize() override { stream_->synchronize(); }

   private:
    void timed(const std::string& name, Cost cost, const auto& work) {
      const TimePoint begin = device_.clock_.now();
      work();
      Entry& entry = device_.entries_[name];
      entry.seconds += std::chrono::duration<double>(device_.clock_.now() - begin).count();
      entry.flops += cost.flops;
      entry.bytes += cost.bytes;
      ++entry.runs;
    }
    TimedDevice& device_;
    std::unique_ptr<Stream> stream_;
  };

  void release(std::byte*, std::size_t) noexcept override {}  // memory belongs to device_

  Device& device_;
  const Clock& clock_;
  std::map<std::string, Entry> entries_;
};

}  // namespace weft::test
