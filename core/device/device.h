#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/device/optimizer.h"
#include "core/device/tensor_ref.h"
#include "core/graph/op.h"

namespace weft {

class Device;

/// Memory of a device. Owns it; the device must outlive it.
class DeviceMemory final {
 public:
  DeviceMemory() = default;
  DeviceMemory(Device& device, std::byte* data, std::size_t size)
      : device_(&device), data_(data), size_(size) {}
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    DeviceMemory(std::move(other)).swap(*this);
    return *this;
  }
  ~DeviceMemory();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  void swap(DeviceMemory& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// A point in a stream's queue. Any thread.
class Event {
 public:
  virtual ~Event() = default;
  /// True when everything that was queued before the event is done, or will never be because the
  /// device failed.
  virtual bool done() const = 0;
  /// Blocks until done. Throws the error of the work before it, if that failed. Programs wait by
  /// Stream::wait.
  virtual void synchronize() const = 0;
};

/// Work that a stream has recorded, to be queued again at the cost of one call. Ends before its
/// stream, and when none of it is queued.
class Recording {
 public:
  virtual ~Recording() = default;
};

/// An in-order queue of work on one device. Calls return at once or when the work is done, as the
/// device likes. What they are given by reference and in spans of TensorRef and the like is read
/// within the call; the memory that tensors, `from`, `to` and `results` point to must stay valid,
/// and as it is, until the work is done. One thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;

  /// Runs one op. `modes` has one entry per output, or is empty: then all outputs are written. Only
  /// f32 outputs accumulate. An output may share memory with the input that its OpDefinition names
  /// as in_place_input, and with no other. Throws Error(kInvalidArgument) if types do not fit the
  /// op or an id is outside its table.
  virtual void run(const Op& op, std::span<const ConstTensorRef> inputs,
                   std::span<const TensorRef> outputs, std::span<const OutputMode> modes = {}) = 0;
  /// to[i] += from[i]
  virtual void add(std::span<const float> from, std::span<float> to) = 0;
  /// Between memory of this device and of the host, in any direction. Copies from and to host
  /// memory that is not allocate_staging()'s may hold up the caller.
  virtual void copy(std::span<const std::byte> from, std::span<std::byte> to) = 0;
  virtual void fill_zero(std::span<std::byte> memory) = 0;
  /// Updates values, moments and working copies of all parameters from their gradients.
  virtual void adamw(const AdamW& step, std::span<const OptimizedParameter> parameters) = 0;
  /// results[i] = sum of the squares of tensors[i], added up in double in a fixed order. `results`
  /// is host memory, valid when an event that is recorded later is done; best allocate_staging()'s.
  virtual void sums_of_squares(std::span<const std::span<const float>> tensors,
                               std::span<double> results) = 0;

  virtual std::unique_ptr<Event> record() = 0;
  /// Work queued after this call starts only when `event`, of this device, is done. The event need
  /// not outlive the call.
  virtual void wait(const Event& event) = 0;
  /// Blocks until all queued work is done. An error of queued work is thrown here at the latest.
  virtual void synchronize() = 0;
  /// Queues what `work` queues on this stream (ops, copies, zeros; on the same memory whenever it
  /// is queued again), and records it where the device gains by that, as a CUDA graph; elsewhere
  /// the result is null, and the work is queued by calling it again. `work` has been called without
  /// recording before, so that all that its ops prepare once is there.
  virtual std::unique_ptr<Recording> record_work(const std::function<void()>& work) {
    work();
    return nullptr;
  }
  /// Queues recorded work of this stream once more.
  virtual void replay(const Recording& recording) { static_cast<void>(recording); }
  /// What libraries of this kind of device call a stream (a cudaStream_t); null where there is
  /// none.
  virtual void* native_handle() const { return nullptr; }
};

/// One processor with its memory. Owned by the process's main or its device actor; outlives its
/// memory and streams.
class Device {
 public:
  virtual ~Device() = default;
  /// "cpu (avx512, 1 thread)": for status pages and benchmark records.
  virtual std::string description() const = 0;
  /// Memory with any content, aligned to 64 bytes or more. Throws Error(kResourceExhausted). Any
  /// thread.
  virtual DeviceMemory allocate(std::size_t bytes) = 0;
  /// Host memory that copies to and from this device are fastest with (pinned, for a GPU), aligned
  /// like allocate()'s. Any thread. This one is for devices whose memory is the host's.
  virtual DeviceMemory allocate_staging(std::size_t bytes) { return allocate(bytes); }
  virtual std::unique_ptr<Stream> create_stream() = 0;
  /// Whether the host may read and write the memory directly.
  virtual bool is_host_memory() const = 0;
  /// What turned out so far about how it computes, for people, each once, the newest last: an op
  /// that a library refused, which then took a slower way. Only ever grows. Any thread.
  virtual std::vector<std::string> notes() const { return {}; }

 private:
  friend class DeviceMemory;
  virtual void release(std::byte* data, std::size_t size) noexcept = 0;
};

inline DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) device_->release(data_, size_);
}

}  // namespace weft
