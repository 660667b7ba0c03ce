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

/// Owner of memory of a device. The device must outlive it.
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

/// Position in a stream's queue. Thread-safe.
class Event {
 public:
  virtual ~Event() = default;
  /// Returns true if all work queued before the event is done, or will never be done because the
  /// device failed.
  virtual bool done() const = 0;
  /// Blocks until done. Throws the error of earlier work that failed. Programs use Stream::wait
  /// instead.
  virtual void synchronize() const = 0;
};

/// Work recorded by a stream, to be queued again by one call. Must be destroyed before its stream
/// and while none of it is queued.
class Recording {
 public:
  virtual ~Recording() = default;
};

/// Ordered queue of work on one device. A call returns at once or when the work is done, depending
/// on the device. Arguments (references, spans of TensorRef and the like) are read within the call.
/// The memory behind tensors, `from`, `to` and `results` must stay valid and unchanged until the
/// work is done. Not thread-safe.
class Stream {
 public:
  virtual ~Stream() = default;

  /// Runs one op. `modes` has one entry per output; if empty, all outputs are written. Only f32
  /// outputs can accumulate. An output may share memory only with the in_place_input of its
  /// OpDefinition. Throws Error(kInvalidArgument) if types do not fit the op or an id is outside
  /// its table.
  virtual void run(const Op& op, std::span<const ConstTensorRef> inputs,
                   std::span<const TensorRef> outputs, std::span<const OutputMode> modes = {}) = 0;
  /// Computes to[i] += from[i].
  virtual void add(std::span<const float> from, std::span<float> to) = 0;
  /// Copies between any memory of this device and of the host. May block the caller if the host
  /// memory is not from allocate_staging().
  virtual void copy(std::span<const std::byte> from, std::span<std::byte> to) = 0;
  virtual void fill_zero(std::span<std::byte> memory) = 0;
  /// Updates values, moments and working copies of all parameters from their gradients.
  virtual void adamw(const AdamW& step, std::span<const AdamWParameter> parameters) = 0;
  /// Sets results[i] to the sum of squares of tensors[i], summed in double in a fixed order.
  /// `results` is host memory, preferably from allocate_staging(), and is valid once a later event
  /// is done.
  virtual void sums_of_squares(std::span<const std::span<const float>> tensors,
                               std::span<double> results) = 0;

  virtual std::unique_ptr<Event> record() = 0;
  /// Delays work queued after this call until `event`, of this device, is done. The event need not
  /// outlive the call.
  virtual void wait(const Event& event) = 0;
  /// Blocks until all queued work is done. Throws an error of queued work at the latest here.
  virtual void synchronize() = 0;
  /// Queues the work that `work` queues on this stream, and records it if the device benefits, as a
  /// CUDA graph. Otherwise returns null; call `work` again to queue it again. `work` must queue
  /// ops, copies and zeros only, on the same memory each time. It must have run once without
  /// recording, so that one-time preparations of its ops are done.
  virtual std::unique_ptr<Recording> record_work(const std::function<void()>& work) {
    work();
    return nullptr;
  }
  /// Queues recorded work of this stream again.
  virtual void replay(const Recording& recording) { static_cast<void>(recording); }
  /// Returns the stream's handle for the libraries of the device (a cudaStream_t), or null.
  virtual void* native_handle() const { return nullptr; }
};

/// Processor with its memory. Owned by the process's main or its device actor. Must outlive its
/// memory and streams.
class Device {
 public:
  virtual ~Device() = default;
  /// Returns "cpu (avx512, 1 thread)", for status pages and benchmark records.
  virtual std::string description() const = 0;
  /// Allocates uninitialized memory, aligned to at least 64 bytes. Throws
  /// Error(kResourceExhausted). Thread-safe.
  virtual DeviceMemory allocate(std::size_t bytes) = 0;
  /// Allocates host memory for the fastest copies to and from this device (pinned, for a GPU),
  /// aligned like allocate()'s. Thread-safe. The default is for devices that use host memory.
  virtual DeviceMemory allocate_staging(std::size_t bytes) { return allocate(bytes); }
  virtual std::unique_ptr<Stream> create_stream() = 0;
  /// Returns true if the host may access the memory directly.
  virtual bool is_host_memory() const = 0;
  /// Returns messages for users about how the device computes, each once, oldest first: an op that
  /// a library rejected and for which a slower implementation is used. Only grows. Thread-safe.
  virtual std::vector<std::string> notes() const { return {}; }

 private:
  friend class DeviceMemory;
  virtual void release(std::byte* data, std::size_t size) noexcept = 0;
};

inline DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) device_->release(data_, size_);
}

}  // namespace weft
