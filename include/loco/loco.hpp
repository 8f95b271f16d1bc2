/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_LOCO_HPP
#define LOCO_LOCO_HPP

/** \file
 * libloco for C++11 and later: an owner for each object, whose destructor gives it back, and
 * exceptions for statuses. Header only; what it calls is <loco/loco.h>, whose comments say what is
 * concurrent with what, what blocks, and which errors there are. An MPI program includes
 * <loco/mpi.hpp>, too.
 *
 *     loco::runtime rt = loco::open_mpi(MPI_COMM_WORLD);
 *     loco::ticket_lock lock(rt, "lock", rt.everyone(), 0);
 *     rt.wait_ready();
 *     {
 *         std::lock_guard<loco::ticket_lock> hold(lock);
 *         ...
 *     }
 *
 * Objects can be moved, not copied; get() is the handle of C, for calls that have no member here.
 * One that was moved from, or reset(), has none. Destroy channels before their runtime, trees before
 * their tx, that before its store: as variables are that are declared in the order of use. When the
 * last use of a channel is over is for the program to say, by a barrier.
 *
 * What must not leave a callback by an exception: handlers of a multicast (the program ends by
 * std::terminate). The callables of tx::run and scan may throw. */

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#if __cplusplus >= 201703L
#include <string_view>
#endif
#if __cplusplus >= 202002L
#include <span>
#endif

#include <loco/loco.h>

namespace loco {

/** A call of the library failed: its status; what() is "CALL: the library's text". */
class error : public std::runtime_error {
public:
    error(int status, const char *call)
        : std::runtime_error(std::string(call) + ": " + loco_strerror(status)), status_(status)
    {
    }
    int status() const noexcept { return status_; }

private:
    int status_;
};

/** Throw the error of a negative status; else return it. */
inline int check(int status, const char *call)
{
    if (status < 0)
        throw error(status, call);
    return status;
}

/** A time limit of the library. Longer than some 292 years is without limit. */
template <class Rep, class Period>
int64_t nanoseconds(const std::chrono::duration<Rep, Period> &time)
{
    using std::chrono::nanoseconds;

    if (time <= time.zero())
        return 0;
    if (std::chrono::duration<double>(time) >= std::chrono::duration<double>(nanoseconds::max()))
        return LOCO_FOREVER;
    return std::chrono::duration_cast<nanoseconds>(time).count();
}

/** A byte string that somebody else owns: a key or a value. */
class bytes {
public:
    bytes() noexcept : it_(loco_bytes("", 0)) { }
    bytes(loco_bytes_t it) noexcept : it_(it) { }
    bytes(const void *data, size_t len) noexcept : it_(loco_bytes(data, len)) { }
    bytes(const char *text) noexcept : it_(loco_text(text)) { }
    bytes(const std::string &text) noexcept : it_(loco_bytes(text.data(), text.size())) { }
#if __cplusplus >= 201703L
    bytes(std::string_view text) noexcept : it_(loco_bytes(text.data(), text.size())) { }
    operator std::string_view() const noexcept { return {data(), size()}; }
#endif
#if __cplusplus >= 202002L
    bytes(std::span<const std::byte> s) noexcept : it_(loco_bytes(s.data(), s.size())) { }
#endif
    const char *data() const noexcept { return static_cast<const char *>(it_.data); }
    size_t size() const noexcept { return it_.len; }
    std::string str() const { return it_.len == 0 ? std::string() : std::string(data(), size()); }
    loco_bytes_t get() const noexcept { return it_; }

private:
    loco_bytes_t it_;
};

/** The owner of a handle of C. */
template <class T, void (*Destroy)(T *)> class handle {
public:
    handle() noexcept : it_(nullptr) { }
    explicit handle(T *it) noexcept : it_(it) { }
    handle(handle &&other) noexcept : it_(other.release()) { }
    handle &operator=(handle &&other) noexcept
    {
        if (this != &other)
            reset(other.release());
        return *this;
    }
    handle(const handle &) = delete;
    handle &operator=(const handle &) = delete;
    ~handle() { reset(); }

    T *get() const noexcept { return it_; }
    explicit operator bool() const noexcept { return it_ != nullptr; }
    /** Give the handle to the caller, who destroys it. */
    T *release() noexcept
    {
        T *it = it_;

        it_ = nullptr;
        return it;
    }
    /** Destroy it, and own another one. */
    void reset(T *it = nullptr) noexcept
    {
        T *old = it_;

        it_ = it;
        if (old != nullptr)
            Destroy(old);
    }

protected:
    T *it_;
};

/** A group made by meeting or subset; functions take the handle of C, which everyone() is, too. */
class group : public handle<loco_group_t, loco_group_destroy> {
public:
    using handle::handle;
    operator const loco_group_t *() const noexcept { return it_; }
};

inline group subset(const loco_group_t *of, const std::vector<int> &ranks)
{
    loco_group_t *made;

    check(loco_group_subset(of, static_cast<int>(ranks.size()), ranks.data(), &made),
          "loco::subset");
    return group(made);
}

/** This process's place in the network memory. */
class runtime {
public:
    using close_fn = void (*)(loco_runtime_t *);

    runtime() noexcept : it_(nullptr, nullptr) { }
    runtime(loco_runtime_t *it, close_fn close) noexcept : it_(it, close) { }

    /** For this process alone, to use a pool. */
    static runtime attach(const char *pool, const loco_attach_options_t *options = nullptr)
    {
        loco_runtime_t *rt;

        check(loco_runtime_attach(pool, options, &rt), "loco_runtime_attach");
        return runtime(rt, loco_runtime_close);
    }

    static runtime open(const loco_bootstrap &boot)
    {
        loco_runtime_t *rt;

        check(loco_runtime_open(&boot, &rt), "loco_runtime_open");
        return runtime(rt, loco_runtime_close);
    }

    loco_runtime_t *get() const noexcept { return it_.get(); }
    operator loco_runtime_t *() const noexcept { return it_.get(); }
    void reset() noexcept { it_.reset(); }

    const loco_group_t *everyone() const noexcept { return loco_everyone(get()); }
    int rank() const noexcept { return loco_group_rank(everyone()); }
    int size() const noexcept { return loco_group_size(everyone()); }
    void wait_ready() const { check(loco_runtime_wait_ready(get(), LOCO_FOREVER), "wait_ready"); }
    template <class Rep, class Period>
    void wait_ready(const std::chrono::duration<Rep, Period> &limit) const
    {
        check(loco_runtime_wait_ready(get(), nanoseconds(limit)), "wait_ready");
    }
    void fence(loco_fence_scope scope = LOCO_FENCE_PROCESS, int peer = LOCO_ALL_PEERS) const
    {
        check(loco_fence(get(), scope, peer), "loco_fence");
    }

private:
    std::unique_ptr<loco_runtime_t, close_fn> it_;
};

class barrier : public handle<loco_barrier_t, loco_barrier_destroy> {
public:
    barrier() = default;
    barrier(loco_runtime_t *rt, const char *name, const loco_group_t *of,
            const char *parent = nullptr)
    {
        check(loco_barrier_create(rt, parent, name, of, &it_), "loco_barrier_create");
    }
    void wait() { check(loco_barrier_wait(it_), "loco_barrier_wait"); }
    /** Whether all have come in time; if not, go on waiting for the same round by another call. */
    template <class Rep, class Period>
    bool wait_for(const std::chrono::duration<Rep, Period> &limit)
    {
        int status = loco_barrier_wait_timed(it_, nanoseconds(limit));

        return status != LOCO_ERR_TIMEOUT && check(status, "loco_barrier_wait_timed") == LOCO_OK;
    }
};

/** For std::lock_guard and std::unique_lock; of the thread that has locked it. Unlocking fences all
 * writes of this thread; ordered(scope, peer) chooses another fence. An unlock whose fence fails
 * throws, and in std::lock_guard's destructor that ends the program: where peers may die, unlock a
 * std::unique_lock, or call the functions of C. */
class ticket_lock : public handle<loco_ticket_lock_t, loco_ticket_lock_destroy> {
public:
    ticket_lock() = default;
    ticket_lock(loco_runtime_t *rt, const char *name, const loco_group_t *of, int host,
                const char *parent = nullptr)
    {
        check(loco_ticket_lock_create(rt, parent, name, of, host, &it_),
              "loco_ticket_lock_create");
    }
    ticket_lock &ordered(loco_fence_scope scope, int peer = LOCO_ALL_PEERS) noexcept
    {
        scope_ = scope;
        peer_ = peer;
        return *this;
    }
    void lock() { check(loco_ticket_lock_acquire(it_), "loco_ticket_lock_acquire"); }
    void unlock()
    {
        check(loco_ticket_lock_release(it_, scope_, peer_), "loco_ticket_lock_release");
    }
    bool try_lock()
    {
        int status = loco_ticket_lock_try_acquire(it_);

        return status != LOCO_ERR_AGAIN && check(status, "loco_ticket_lock_try_acquire") == LOCO_OK;
    }
    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &limit)
    {
        int status = loco_ticket_lock_acquire_timed(it_, nanoseconds(limit));

        return status != LOCO_ERR_TIMEOUT
               && check(status, "loco_ticket_lock_acquire_timed") == LOCO_OK;
    }
    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &end)
    {
        return try_lock_for(end - Clock::now());
    }

private:
    loco_fence_scope scope_ = LOCO_FENCE_THREAD;
    int peer_ = LOCO_ALL_PEERS;
};

/** For std::lock_guard, and std::shared_lock of C++14; as ticket_lock. */
class rw_lock : public handle<loco_rw_lock_t, loco_rw_lock_destroy> {
public:
    rw_lock() = default;
    rw_lock(loco_runtime_t *rt, const char *name, const loco_group_t *of, int host,
            const char *parent = nullptr)
    {
        check(loco_rw_lock_create(rt, parent, name, of, host, &it_), "loco_rw_lock_create");
    }
    void lock() { check(loco_rw_lock_acquire_exclusive(it_), "loco_rw_lock_acquire_exclusive"); }
    void unlock()
    {
        check(loco_rw_lock_release_exclusive(it_, LOCO_FENCE_THREAD, LOCO_ALL_PEERS),
              "loco_rw_lock_release_exclusive");
    }
    bool try_lock()
    {
        int status = loco_rw_lock_try_exclusive(it_);

        return status != LOCO_ERR_AGAIN && check(status, "loco_rw_lock_try_exclusive") == LOCO_OK;
    }
    void lock_shared() { check(loco_rw_lock_acquire_shared(it_), "loco_rw_lock_acquire_shared"); }
    void unlock_shared()
    {
        check(loco_rw_lock_release_shared(it_, LOCO_FENCE_THREAD, LOCO_ALL_PEERS),
              "loco_rw_lock_release_shared");
    }
    bool try_lock_shared()
    {
        int status = loco_rw_lock_try_shared(it_);

        return status != LOCO_ERR_AGAIN && check(status, "loco_rw_lock_try_shared") == LOCO_OK;
    }
};

/** A queue of values that can be copied byte by byte. */
template <class T> class queue : public handle<loco_queue_t, loco_queue_destroy> {
    static_assert(std::is_trivially_copyable<T>::value, "entries are copied byte by byte");

public:
    queue() = default;
    queue(loco_runtime_t *rt, const char *name, const loco_group_t *of, uint64_t capacity,
          int flags = 0, const char *parent = nullptr)
    {
        check(loco_queue_create(rt, parent, name, of, sizeof(T), capacity, flags, &it_),
              "loco_queue_create");
    }
    void push(const T &entry) { check(loco_queue_push(it_, &entry), "loco_queue_push"); }
    /** Whether there was room. */
    bool try_push(const T &entry)
    {
        int status = loco_queue_try_push(it_, &entry);

        return status != LOCO_ERR_AGAIN && check(status, "loco_queue_try_push") == LOCO_OK;
    }
    /** Whether there was one before the queue was shut down; waits for it. */
    bool pop(T &entry)
    {
        int status = loco_queue_pop(it_, &entry);

        return status != LOCO_ERR_CLOSED && check(status, "loco_queue_pop") == LOCO_OK;
    }
    /** Whether there is one now; LOCO_ERR_CLOSED is an error. */
    bool try_pop(T &entry)
    {
        int status = loco_queue_try_pop(it_, &entry);

        return status != LOCO_ERR_AGAIN && check(status, "loco_queue_try_pop") == LOCO_OK;
    }
    /** Let nothing more in (loco_queue_close). */
    void shutdown() { check(loco_queue_close(it_), "loco_queue_close"); }
    uint64_t size() const
    {
        uint64_t entries;

        check(loco_queue_size(it_, &entries), "loco_queue_size");
        return entries;
    }
};

/** Wait until one of several queues, of any entries, has an entry or was shut down: its index. The
 * search begins behind `after`. Nothing is taken (queue::try_pop).
 *
 *     for (int i = -1;;) {
 *         i = loco::queue_wait_any({ urgent.get(), rest.get() }, i);
 *         ...
 */
inline int queue_wait_any(const std::vector<loco_queue_t *> &queues, int after = -1,
                          int64_t timeout_ns = LOCO_FOREVER)
{
    check(loco_queue_wait_any(queues.data(), static_cast<int>(queues.size()), timeout_ns, &after),
          "loco_queue_wait_any");
    return after;
}

namespace detail {
template <class T> struct element_type;
template <> struct element_type<int32_t> { static constexpr loco_type value = LOCO_TYPE_I32; };
template <> struct element_type<int64_t> { static constexpr loco_type value = LOCO_TYPE_I64; };
template <> struct element_type<uint32_t> { static constexpr loco_type value = LOCO_TYPE_U32; };
template <> struct element_type<uint64_t> { static constexpr loco_type value = LOCO_TYPE_U64; };
template <> struct element_type<float> { static constexpr loco_type value = LOCO_TYPE_F32; };
template <> struct element_type<double> { static constexpr loco_type value = LOCO_TYPE_F64; };
template <class T> struct word_type;
template <> struct word_type<uint64_t> { static constexpr loco_type value = LOCO_TYPE_U64; };
template <> struct word_type<int64_t> { static constexpr loco_type value = LOCO_TYPE_I64; };
template <> struct word_type<double> { static constexpr loco_type value = LOCO_TYPE_F64; };
}

/** Elements of integers of 4 or 8 bytes, float or double are reduced. */
class collective : public handle<loco_collective_t, loco_collective_destroy> {
public:
    collective() = default;
    collective(loco_runtime_t *rt, const char *name, const loco_group_t *of,
               size_t piece_bytes = 0, const char *parent = nullptr)
    {
        check(loco_collective_create(rt, parent, name, of, piece_bytes, &it_),
              "loco_collective_create");
    }
    template <class T> void broadcast(int root, T *data, size_t n = 1)
    {
        static_assert(std::is_trivially_copyable<T>::value, "elements are copied byte by byte");
        check(loco_collective_broadcast(it_, root, data, n * sizeof(T)),
              "loco_collective_broadcast");
    }
    /** `result` is used at the root alone. */
    template <class T> void reduce(int root, loco_op op, const T *operand, T *result, size_t n = 1)
    {
        check(loco_collective_reduce(it_, root, op, detail::element_type<T>::value, operand,
                                     result, n), "loco_collective_reduce");
    }
    template <class T> void allreduce(loco_op op, const T *operand, T *result, size_t n = 1)
    {
        check(loco_collective_allreduce(it_, op, detail::element_type<T>::value, operand, result,
                                        n), "loco_collective_allreduce");
    }
    template <class T> T allreduce(loco_op op, T operand)
    {
        T result;

        allreduce(op, &operand, &result);
        return result;
    }
};

class region : public handle<loco_region_t, loco_region_destroy> {
public:
    region() = default;
    explicit region(loco_region_t *it) noexcept : handle(it) { }
    region(loco_runtime_t *rt, const char *name, const loco_group_t *of, size_t len,
           const char *parent = nullptr)
    {
        check(loco_region_create(rt, parent, name, of, len, &it_), "loco_region_create");
    }
    /** This process's part, in bytes and as elements. */
    size_t len() const noexcept { return loco_region_len(it_); }
    template <class T> T *local() const noexcept
    {
        return static_cast<T *>(loco_region_local(it_));
    }
#if __cplusplus >= 202002L
    template <class T> std::span<T> part() const noexcept
    {
        return {local<T>(), len() / sizeof(T)};
    }
#endif
    /** `n` elements to and from rank's part, from byte `offset` on. */
    template <class T> void write(int rank, uint64_t offset, const T *source, size_t n = 1)
    {
        static_assert(std::is_trivially_copyable<T>::value, "elements are copied byte by byte");
        check(loco_region_write(it_, rank, offset, source, n * sizeof(T)), "loco_region_write");
    }
    template <class T> void read(int rank, uint64_t offset, T *result, size_t n = 1) const
    {
        static_assert(std::is_trivially_copyable<T>::value, "elements are copied byte by byte");
        check(loco_region_read(it_, rank, offset, result, n * sizeof(T)), "loco_region_read");
    }
    /** The first block is at `source` (`result`) and at `offset`. */
    void write_blocks(int rank, uint64_t offset, const void *source, const loco_blocks_t &blocks)
    {
        check(loco_region_write_blocks(it_, rank, offset, source, &blocks),
              "loco_region_write_blocks");
    }
    void read_blocks(int rank, uint64_t offset, void *result, const loco_blocks_t &blocks) const
    {
        check(loco_region_read_blocks(it_, rank, offset, result, &blocks),
              "loco_region_read_blocks");
    }
    void write64(int rank, uint64_t offset, uint64_t value)
    {
        check(loco_region_write64(it_, rank, offset, value), "loco_region_write64");
    }
    uint64_t read64(int rank, uint64_t offset) const
    {
        uint64_t value;

        check(loco_region_read64(it_, rank, offset, &value), "loco_region_read64");
        return value;
    }
    uint64_t fetch_add(int rank, uint64_t offset, uint64_t add)
    {
        uint64_t old;

        check(loco_region_fetch_add(it_, rank, offset, add, &old), "loco_region_fetch_add");
        return old;
    }
    uint64_t compare_swap(int rank, uint64_t offset, uint64_t expected, uint64_t desired)
    {
        uint64_t old;

        check(loco_region_compare_swap(it_, rank, offset, expected, desired, &old),
              "loco_region_compare_swap");
        return old;
    }
    /** T is uint64_t, int64_t or double, and the type of the operation. */
    template <class T> T fetch_op(int rank, uint64_t offset, loco_op op, T operand)
    {
        T old;

        check(loco_region_fetch_op(it_, rank, offset, op, detail::word_type<T>::value, &operand,
                                   &old), "loco_region_fetch_op");
        return old;
    }
};

/** Members named as those of std::atomic. */
class atomic_var : public handle<loco_atomic_var_t, loco_atomic_var_destroy> {
public:
    atomic_var() = default;
    atomic_var(loco_runtime_t *rt, const char *name, const loco_group_t *of, int host,
               const char *parent = nullptr)
    {
        check(loco_atomic_var_create(rt, parent, name, of, host, &it_), "loco_atomic_var_create");
    }
    uint64_t load() const
    {
        uint64_t value;

        check(loco_atomic_var_load(it_, &value), "loco_atomic_var_load");
        return value;
    }
    void store(uint64_t value)
    {
        check(loco_atomic_var_store(it_, value), "loco_atomic_var_store");
    }
    uint64_t fetch_add(uint64_t add)
    {
        uint64_t old;

        check(loco_atomic_var_fetch_add(it_, add, &old), "loco_atomic_var_fetch_add");
        return old;
    }
    uint64_t exchange(uint64_t value)
    {
        uint64_t old;

        check(loco_atomic_var_exchange(it_, value, &old), "loco_atomic_var_exchange");
        return old;
    }
    /** T is uint64_t, int64_t or double, and the type of the operation. */
    template <class T> T fetch_op(loco_op op, T operand)
    {
        T old;

        check(loco_atomic_var_fetch_op(it_, op, detail::word_type<T>::value, &operand, &old),
              "loco_atomic_var_fetch_op");
        return old;
    }
    uint64_t fetch_and(uint64_t bits) { return fetch_op(LOCO_OP_BAND, bits); }
    uint64_t fetch_or(uint64_t bits) { return fetch_op(LOCO_OP_BOR, bits); }
    uint64_t fetch_xor(uint64_t bits) { return fetch_op(LOCO_OP_BXOR, bits); }
    /** Whether it was swapped; `expected` becomes the value before. */
    bool compare_exchange(uint64_t &expected, uint64_t desired)
    {
        uint64_t old, was = expected;

        check(loco_atomic_var_compare_swap(it_, was, desired, &old),
              "loco_atomic_var_compare_swap");
        expected = old;
        return old == was;
    }
};

class pool : public handle<loco_pool_t, loco_pool_close> {
public:
    pool() = default;
    pool(loco_runtime_t *rt, const char *name)
    {
        check(loco_pool_open(rt, name, &it_), "loco_pool_open");
    }
    void remove(const char *name) { check(loco_pool_remove(it_, name), "loco_pool_remove"); }
};

class store : public handle<loco_store_t, loco_store_destroy> {
public:
    store() = default;
    store(loco_runtime_t *rt, const char *name, const loco_group_t *of,
          const loco_store_options_t &options, const char *parent = nullptr)
    {
        check(loco_store_create(rt, parent, name, of, &options, &it_), "loco_store_create");
    }
    /** One of a pool; without options it has to be there. */
    store(const pool &in, const char *name, const loco_store_options_t *options = nullptr)
    {
        check(loco_store_open(in.get(), name, options, &it_), "loco_store_open");
    }
    /** Options with so many bytes of memory for values at each host. */
    static loco_store_options_t sized(uint64_t bytes) noexcept
    {
        loco_store_options_t options = loco_store_options_t();

        options.bytes = bytes;
        return options;
    }
    loco_object_t root(uint64_t i) const noexcept { return loco_store_root(it_, i); }
};

/** A handle for transactions, of one thread. */
class tx : public handle<loco_tx_t, loco_tx_close> {
public:
    tx() = default;
    explicit tx(const store &of) { check(loco_tx_open(of.get(), &it_), "loco_tx_open"); }

    void begin(unsigned flags = 0) { check(loco_tx_begin_as(it_, flags), "loco_tx_begin"); }
    void commit() { check(loco_tx_commit(it_), "loco_tx_commit"); }
    void abort() noexcept { loco_tx_abort(it_); }

    /** Begin, call body(*this), commit; again after LOCO_ERR_CONFLICT, with growing pauses. Another
     * exception of the body undoes the transaction and goes on to the caller. The body may be
     * called many times: it must not change anything but through this. */
    template <class Body> void run(Body &&body)
    {
        job<typename std::remove_reference<Body>::type> one = {*this, body, nullptr};
        int status = loco_tx_run(it_, call<decltype(one)>, &one);

        if (one.thrown)
            std::rethrow_exception(one.thrown);
        check(status, "loco_tx_run");
    }

    /** A value of a type that can be copied byte by byte; LOCO_ERR_SIZE: it has another size. */
    template <class T> T read(loco_object_t object)
    {
        static_assert(std::is_trivially_copyable<T>::value, "values are copied byte by byte");
        T value;

        check(loco_tx_read(it_, object, &value, sizeof value), "loco_tx_read");
        return value;
    }
    template <class T> void write(loco_object_t object, const T &value)
    {
        static_assert(std::is_trivially_copyable<T>::value, "values are copied byte by byte");
        check(loco_tx_write(it_, object, &value, sizeof value), "loco_tx_write");
    }
    template <class T> loco_object_t make(const T &value, int host = LOCO_ANY_HOST)
    {
        static_assert(std::is_trivially_copyable<T>::value, "values are copied byte by byte");
        loco_object_t object;

        check(loco_tx_new(it_, host, &value, sizeof value, &object), "loco_tx_new");
        return object;
    }
    void free(loco_object_t object) { check(loco_tx_free(it_, object), "loco_tx_free"); }

private:
    template <class Body> struct job {
        tx &self;
        Body &body;
        std::exception_ptr thrown;
    };

    /* An exception does not pass through the library: it waits here, and the run ends with 1. */
    template <class Job> static int call(loco_tx_t *, void *arg)
    {
        Job &one = *static_cast<Job *>(arg);

        try {
            one.body(one.self);
            return LOCO_OK;
        } catch (const error &why) {
            if (why.status() == LOCO_ERR_CONFLICT)
                return LOCO_ERR_CONFLICT;
            one.thrown = std::current_exception();
        } catch (...) {
            one.thrown = std::current_exception();
        }
        return 1;
    }
};

namespace detail {

/* The functions of trees and of hashes, alike. */
struct tree_calls {
    using type = loco_tree_t;
    using options = loco_tree_options_t;
    static constexpr size_t value_max = LOCO_TREE_VALUE_MAX;
    static void close(type *it) { loco_tree_close(it); }
    static int open(loco_tx_t *tx, loco_object_t root, const options *how, type **it)
    {
        return loco_tree_open(tx, root, how, it);
    }
    static int get(type *it, loco_bytes_t key, void *value, size_t room, size_t *len)
    {
        return loco_tree_get(it, key, value, room, len);
    }
    static int put(type *it, loco_bytes_t k, loco_bytes_t v) { return loco_tree_put(it, k, v); }
    static int insert(type *it, loco_bytes_t k, loco_bytes_t v)
    {
        return loco_tree_insert(it, k, v);
    }
    static int erase(type *it, loco_bytes_t k) { return loco_tree_delete(it, k); }
    static int add(type *it, loco_bytes_t k, uint64_t by, uint64_t *before)
    {
        return loco_tree_add(it, k, by, before);
    }
};

struct hash_calls {
    using type = loco_hash_t;
    using options = loco_hash_options_t;
    static constexpr size_t value_max = LOCO_HASH_VALUE_MAX;
    static void close(type *it) { loco_hash_close(it); }
    static int open(loco_tx_t *tx, loco_object_t root, const options *how, type **it)
    {
        return loco_hash_open(tx, root, how, it);
    }
    static int get(type *it, loco_bytes_t key, void *value, size_t room, size_t *len)
    {
        return loco_hash_get(it, key, value, room, len);
    }
    static int put(type *it, loco_bytes_t k, loco_bytes_t v) { return loco_hash_put(it, k, v); }
    static int insert(type *it, loco_bytes_t k, loco_bytes_t v)
    {
        return loco_hash_insert(it, k, v);
    }
    static int erase(type *it, loco_bytes_t k) { return loco_hash_delete(it, k); }
    static int add(type *it, loco_bytes_t k, uint64_t by, uint64_t *before)
    {
        return loco_hash_add(it, k, by, before);
    }
};

template <class Calls> class map : public handle<typename Calls::type, Calls::close> {
public:
    map() = default;
    map(const tx &with, loco_object_t root, const typename Calls::options *how = nullptr)
    {
        check(Calls::open(with.get(), root, how, &this->it_), "loco map open");
    }
    /** Whether the key is there; its value goes to `value`. */
    bool get(bytes key, std::string &value) const
    {
        size_t len, room = 256;

        for (;; room = Calls::value_max) {
            std::string read(room, '\0');
            int status = Calls::get(this->it_, key.get(), &read[0], room, &len);

            if (status == LOCO_ERR_NOT_FOUND)
                return false;
            check(status, "loco map get");
            if (len > room)
                continue;
            read.resize(len);
            value = std::move(read);
            return true;
        }
    }
    /** The value; error(LOCO_ERR_NOT_FOUND) where the key is not there. */
    std::string at(bytes key) const
    {
        std::string value;

        if (!get(key, value))
            throw error(LOCO_ERR_NOT_FOUND, "loco map at");
        return value;
    }
    bool contains(bytes key) const
    {
        size_t len;
        char none;
        int status = Calls::get(this->it_, key.get(), &none, 0, &len);

        return status != LOCO_ERR_NOT_FOUND && check(status, "loco map contains") == LOCO_OK;
    }
    void put(bytes key, bytes value)
    {
        check(Calls::put(this->it_, key.get(), value.get()), "loco map put");
    }
    /** Whether the key was not there, and is now. */
    bool insert(bytes key, bytes value)
    {
        int status = Calls::insert(this->it_, key.get(), value.get());

        return status != LOCO_ERR_EXISTS && check(status, "loco map insert") == LOCO_OK;
    }
    /** Whether the key was there. */
    bool erase(bytes key)
    {
        int status = Calls::erase(this->it_, key.get());

        return status != LOCO_ERR_NOT_FOUND && check(status, "loco map erase") == LOCO_OK;
    }
    /** Add to a value of 8 bytes; the number before, 0 if there was none. */
    uint64_t add(bytes key, uint64_t by)
    {
        uint64_t before;

        check(Calls::add(this->it_, key.get(), by, &before), "loco map add");
        return before;
    }

protected:
    template <class Visit> struct job {
        Visit &visit;
        std::exception_ptr thrown;
    };
    template <class Job> static int call(void *arg, loco_bytes_t key, loco_bytes_t value)
    {
        Job &one = *static_cast<Job *>(arg);

        try {
            return one.visit(bytes(key), bytes(value)) ? 0 : 1;
        } catch (...) {
            one.thrown = std::current_exception();
            return 1;
        }
    }
    template <class Job> static void end(const Job &one, int status)
    {
        if (one.thrown)
            std::rethrow_exception(one.thrown);
        check(status, "loco map scan");
    }
};

} /* namespace detail */

/** An ordered map in a store, for the thread of its tx. */
class tree : public detail::map<detail::tree_calls> {
public:
    using map::map;
    /** Call visit(key, value) for the entries from a key on, in their order, while it returns true;
     * without keys for all, with an end below that. The strings are valid until it returns. */
    template <class Visit> void scan(Visit &&visit) const { walk(nullptr, nullptr, visit); }
    template <class Visit> void scan(bytes from, Visit &&visit) const
    {
        loco_bytes_t first = from.get();

        walk(&first, nullptr, visit);
    }
    template <class Visit> void scan(bytes from, bytes to, Visit &&visit) const
    {
        loco_bytes_t first = from.get(), last = to.get();

        walk(&first, &last, visit);
    }

private:
    template <class Visit>
    void walk(const loco_bytes_t *from, const loco_bytes_t *to, Visit &visit) const
    {
        job<Visit> one = {visit, nullptr};

        end(one, loco_tree_scan(it_, from, to, 0, call<decltype(one)>, &one));
    }
};

/** A hash table in a store, for the thread of its tx. */
class hash : public detail::map<detail::hash_calls> {
public:
    using map::map;
    /** Call visit(key, value) for all entries, in no order, while it returns true. */
    template <class Visit> void scan(Visit &&visit) const
    {
        using kind = typename std::remove_reference<Visit>::type;
        job<kind> one = {visit, nullptr};

        end(one, loco_hash_scan(it_, call<decltype(one)>, &one));
    }
};

} /* namespace loco */

#include <loco/multicast.hpp>

#endif
