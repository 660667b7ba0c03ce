#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

namespace weft {

/// Range of the ids 0, 1, ..., size - 1: `for (const MeshId mesh : meshes.ids())`.
template <typename Id>
class IdRange {
 public:
  class Iterator {
   public:
    using value_type = Id;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;
    using reference = Id;
    using pointer = void;
    constexpr Iterator() = default;
    constexpr explicit Iterator(std::size_t at) : at_(at) {}
    constexpr Id operator*() const { return Id(at_); }
    constexpr Iterator& operator++() {
      ++at_;
      return *this;
    }
    constexpr Iterator operator++(int) { return std::exchange(*this, Iterator(at_ + 1)); }
    friend constexpr bool operator==(Iterator, Iterator) = default;

   private:
    std::size_t at_ = 0;
  };

  constexpr explicit IdRange(std::size_t size) : size_(size) {}
  constexpr Iterator begin() const { return Iterator(0); }
  constexpr Iterator end() const { return Iterator(size_); }

 private:
  std::size_t size_;
};

/// Vector indexed by a type of ids: a StageId does not index an IndexedVector<MeshId, T>.
template <typename Id, typename T>
class IndexedVector {
 public:
  IndexedVector() = default;
  explicit IndexedVector(std::size_t size, const T& value = T()) : values_(size, value) {}
  IndexedVector(std::initializer_list<T> values) : values_(values) {}
  explicit IndexedVector(std::vector<T> values) : values_(std::move(values)) {}

  decltype(auto) operator[](Id id) { return values_[id.value()]; }
  decltype(auto) operator[](Id id) const { return values_[id.value()]; }
  /// Returns the id of the added element.
  Id push_back(T value) {
    values_.push_back(std::move(value));
    return Id(values_.size() - 1);
  }
  void resize(std::size_t size) { values_.resize(size); }

  std::size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  IdRange<Id> ids() const { return IdRange<Id>(size()); }
  auto begin() { return values_.begin(); }
  auto begin() const { return values_.begin(); }
  auto end() { return values_.end(); }
  auto end() const { return values_.end(); }
  decltype(auto) front() const { return values_.front(); }
  decltype(auto) back() const { return values_.back(); }
  /// Returns the elements in the order of their ids.
  const std::vector<T>& values() const { return values_; }
  friend bool operator==(const IndexedVector&, const IndexedVector&) = default;

 private:
  std::vector<T> values_;
};

}  // namespace weft
