/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_MULTICAST_HPP
#define LOCO_MULTICAST_HPP

/** \file
 * Multicasts, views and topics for C++, a part of <loco/loco.hpp>. What is given to be called is
 * called in threads of the library; no exception may leave it (the program ends by
 * std::terminate). */

#include <loco/loco.hpp>

namespace loco {

namespace detail {
/* What multicasts can do, whoever owns them. */
template <class Self> class multicast_calls {
public:
    /** Send a message, once a slot is free: its number among this member's. */
    uint64_t post(bytes message)
    {
        uint64_t number;

        check(loco_multicast_post(me(), message.data(), message.size(), &number),
              "loco_multicast_post");
        return number;
    }
    void wait_delivered(uint64_t number)
    {
        check(loco_multicast_wait_delivered(me(), number), "loco_multicast_wait_delivered");
    }
    /** Without a handler: the next message, which is in place until the next call. */
    loco_delivery_t next(int64_t timeout_ns = LOCO_FOREVER)
    {
        loco_delivery_t message;
        int n;

        check(loco_multicast_next(me(), timeout_ns, &message, 1, &n), "loco_multicast_next");
        return message;
    }

private:
    loco_multicast_t *me() const { return static_cast<const Self *>(this)->get(); }
};
}

/** Messages of some members to all. The handler is called in a thread of the library with the next n
 * messages; the last call of all has n = 0. Without one, this process polls by next(). */
class multicast : public detail::multicast_calls<multicast> {
public:
    using handler = std::function<void(const loco_delivery_t *messages, int n)>;

    multicast() = default;
    multicast(loco_runtime_t *rt, const char *name, const loco_group_t *of, handler to = handler(),
              loco_multicast_options_t options = loco_multicast_options_t(),
              const char *parent = nullptr)
        : to_(new handler(std::move(to)))
    {
        loco_multicast_t *made;

        if (*to_) {
            options.handler = call;
            options.arg = to_.get();
        }
        check(loco_multicast_create(rt, parent, name, of, &options, &made),
              "loco_multicast_create");
        it_.reset(made);
    }
    multicast(multicast &&) = default;
    multicast &operator=(multicast &&other) noexcept
    {
        it_ = std::move(other.it_);     /* before the handler that it may call */
        to_ = std::move(other.to_);
        return *this;
    }

    loco_multicast_t *get() const noexcept { return it_.get(); }
    explicit operator bool() const noexcept { return bool(it_); }
    void reset() noexcept { it_.reset(); }

private:
    static void call(void *arg, const loco_delivery_t *messages, int n) noexcept
    {
        (*static_cast<handler *>(arg))(messages, n);
    }

    std::unique_ptr<handler> to_;       /* outlives it_, whose thread calls it */
    handle<loco_multicast_t, loco_multicast_destroy> it_;
};

/** One that a view has: view::multicast. It is valid as long as its view. */
class view_multicast : public detail::multicast_calls<view_multicast> {
public:
    explicit view_multicast(loco_multicast_t *it = nullptr) noexcept : it_(it) { }
    loco_multicast_t *get() const noexcept { return it_; }
    explicit operator bool() const noexcept { return it_ != nullptr; }

private:
    loco_multicast_t *it_;
};

/** What a view calls (loco_view_options_t); empty ones are not called. */
struct view_callbacks {
    std::function<void(uint64_t number, const int *members, int n)> changed;
    std::function<size_t(uint64_t at, void *chunk, size_t room)> save;
    std::function<void(uint64_t at, const void *chunk, size_t len)> load;
};

/** The members of a group that are present. */
class view {
public:
    view() = default;
    view(loco_runtime_t *rt, const char *name, const loco_group_t *of,
         view_callbacks to = view_callbacks(),
         loco_view_options_t options = loco_view_options_t(), const char *parent = nullptr)
        : to_(new state)
    {
        loco_view_t *made;

        to_->callbacks = std::move(to);
        options.changed = to_->callbacks.changed ? changed : nullptr;
        options.save = to_->callbacks.save ? save : nullptr;
        options.load = to_->callbacks.load ? load : nullptr;
        options.arg = to_.get();
        check(loco_view_create(rt, parent, name, of, &options, &made), "loco_view_create");
        it_.reset(made);
    }
    view(view &&) = default;
    view &operator=(view &&other) noexcept
    {
        it_ = std::move(other.it_);     /* before what it may call */
        to_ = std::move(other.to_);
        return *this;
    }

    loco_view_t *get() const noexcept { return it_.get(); }
    explicit operator bool() const noexcept { return bool(it_); }
    /** Leave for good, with its multicasts (loco_view_destroy). */
    void reset() noexcept { it_.reset(); }

    /** A multicast on it; all members of the group make the same ones, in the same order. */
    view_multicast multicast(const char *name, loco::multicast::handler to = nullptr,
                             loco_multicast_options_t options = loco_multicast_options_t())
    {
        loco_multicast_t *made;

        if (to) {
            to_->handlers.emplace_back(new loco::multicast::handler(std::move(to)));
            options.handler = deliver;
            options.arg = to_->handlers.back().get();
        }
        check(loco_view_multicast(get(), name, &options, &made), "loco_view_multicast");
        return view_multicast(made);
    }
    /** The ranks of its members, and its number to `*number`. */
    std::vector<int> members(uint64_t *number = nullptr) const
    {
        std::vector<int> ranks(64);
        int n = 0;

        check(loco_view_members(get(), number, ranks.data(), &n), "loco_view_members");
        ranks.resize(static_cast<size_t>(n));
        return ranks;
    }
    /** The number of the view in which a message of its multicast was delivered. */
    uint64_t of(const view_multicast &m, uint64_t number) const
    {
        return loco_view_of(get(), m.get(), number);
    }
    /** Become a member; go outside. An error with LOCO_ERR_TIMEOUT: it happens later. */
    void join(int64_t timeout_ns = LOCO_FOREVER)
    {
        check(loco_view_join(get(), timeout_ns), "loco_view_join");
    }
    void leave(int64_t timeout_ns = LOCO_FOREVER)
    {
        check(loco_view_leave(get(), timeout_ns), "loco_view_leave");
    }
    void wait(uint64_t number, int64_t timeout_ns = LOCO_FOREVER)
    {
        check(loco_view_wait(get(), number, timeout_ns), "loco_view_wait");
    }

private:
    struct state {
        view_callbacks callbacks;
        std::vector<std::unique_ptr<loco::multicast::handler>> handlers;
    };

    static void changed(void *arg, uint64_t number, const int *members, int n) noexcept
    {
        static_cast<state *>(arg)->callbacks.changed(number, members, n);
    }
    static size_t save(void *arg, uint64_t at, void *chunk, size_t room) noexcept
    {
        return static_cast<state *>(arg)->callbacks.save(at, chunk, room);
    }
    static void load(void *arg, uint64_t at, const void *chunk, size_t len) noexcept
    {
        static_cast<state *>(arg)->callbacks.load(at, chunk, len);
    }
    static void deliver(void *arg, const loco_delivery_t *messages, int n) noexcept
    {
        (*static_cast<loco::multicast::handler *>(arg))(messages, n);
    }

    std::unique_ptr<state> to_;         /* outlives it_, whose threads call it */
    handle<loco_view_t, loco_view_destroy> it_;
};

/** Samples of publishers for all that subscribe. The options say the level, and whether this member
 * subscribes from the beginning. */
class topic {
public:
    using handler = std::function<void(const loco_sample_t *samples, int n)>;
    using event_handler = std::function<void(loco_topic_event event, int64_t value)>;

    topic() = default;
    topic(loco_runtime_t *rt, const char *name, const loco_group_t *of, handler samples,
          loco_topic_options_t options = loco_topic_options_t(),
          event_handler events = event_handler(), const char *parent = nullptr)
        : to_(new state{ std::move(samples), std::move(events) })
    {
        loco_topic_t *made;

        options.handler = to_->samples ? handle_samples : nullptr;
        options.event = to_->events ? handle_event : nullptr;
        options.arg = to_.get();
        check(loco_topic_create(rt, parent, name, of, &options, &made), "loco_topic_create");
        it_.reset(made);
    }
    topic(topic &&) = default;
    topic &operator=(topic &&other) noexcept
    {
        it_ = std::move(other.it_);     /* before what it may call */
        to_ = std::move(other.to_);
        return *this;
    }

    loco_topic_t *get() const noexcept { return it_.get(); }
    explicit operator bool() const noexcept { return bool(it_); }
    void reset() noexcept { it_.reset(); }

    /** Publish a sample, once a slot is free: its number among this member's. */
    uint64_t post(bytes sample)
    {
        uint64_t number;

        check(loco_topic_post(get(), sample.data(), sample.size(), &number), "loco_topic_post");
        return number;
    }
    void wait_delivered(uint64_t number)
    {
        check(loco_topic_wait_delivered(get(), number), "loco_topic_wait_delivered");
    }
    void subscribe() { check(loco_topic_subscribe(get()), "loco_topic_subscribe"); }
    /** The last record in the log file; the last one that is on the disk to `*synced`. */
    uint64_t logged(uint64_t *synced = nullptr) const
    {
        uint64_t written;

        check(loco_topic_logged(get(), &written, synced), "loco_topic_logged");
        return written;
    }
    void wait_synced(uint64_t record, int64_t timeout_ns = LOCO_FOREVER)
    {
        check(loco_topic_wait_synced(get(), record, timeout_ns), "loco_topic_wait_synced");
    }

private:
    struct state {
        handler samples;
        event_handler events;
    };

    static void handle_samples(void *arg, const loco_sample_t *samples, int n) noexcept
    {
        static_cast<state *>(arg)->samples(samples, n);
    }
    static void handle_event(void *arg, enum loco_topic_event event, int64_t value) noexcept
    {
        static_cast<state *>(arg)->events(event, value);
    }

    std::unique_ptr<state> to_;         /* outlives it_, whose thread calls it */
    handle<loco_topic_t, loco_topic_destroy> it_;
};

} /* namespace loco */

#endif
