/* SPDX-License-Identifier: BSD-3-Clause */

/* The objects of <loco/loco.hpp>, at any number of ranks. Ends with 0 and "N checks" if all is as it
 * should be, at each rank. */

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#if __cplusplus >= 201402L
#include <shared_mutex>
#endif
#include <thread>

#include <loco/mpi.hpp>

using std::chrono::milliseconds;
using std::chrono::seconds;

static int checks, me, size;

#define CHECK(what)                                                                        \
    do {                                                                                   \
        checks++;                                                                          \
        if (!(what)) {                                                                     \
            std::fprintf(stderr, "%s:%d: rank %d: not so: %s\n", __FILE__, __LINE__, me, #what); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                  \
        }                                                                                  \
    } while (0)

/* The status that a call throws; 0: none. */
template <class Call> static int thrown(Call call)
{
    try {
        call();
    } catch (const loco::error &why) {
        CHECK(std::string(why.what()).find(loco_strerror(why.status())) != std::string::npos);
        return why.status();
    }
    return 0;
}

static void handles(const loco::runtime &rt)
{
    loco::atomic_var none, first(rt, "first", rt.everyone(), 0);
    loco_atomic_var_t *it = first.get();

    CHECK(!none && first);
    CHECK(thrown([&] { loco::atomic_var(rt, "first", rt.everyone(), 0); }) == LOCO_ERR_NAME);
    none = std::move(first);
    CHECK(none.get() == it && !first);
    rt.wait_ready(seconds(60));
    none.fetch_add(1);
    MPI_Barrier(MPI_COMM_WORLD);
    uint64_t expected = static_cast<uint64_t>(size);
    CHECK(none.load() == expected);
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0) {
        uint64_t wrong = expected + 1;
        CHECK(!none.compare_exchange(wrong, 7) && wrong == expected);
        CHECK(none.compare_exchange(expected, 7) && none.exchange(8) == 7);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(none.load() == 8);
    MPI_Barrier(MPI_COMM_WORLD);
    none.reset();
    /* The name is free again. */
    loco::atomic_var again(rt, "first", rt.everyone(), 0);
    loco::region words(rt, "words", rt.everyone(), 16);
    loco::collective sums(rt, "sums", rt.everyone());
    rt.wait_ready();
    CHECK(sums.allreduce(LOCO_OP_SUM, 1.5) == 1.5 * size);
    CHECK(sums.allreduce(LOCO_OP_MAX, int32_t{me}) == size - 1);
    int root = me == size - 1 ? 42 : 0;
    sums.broadcast(size - 1, &root);
    CHECK(root == 42);
    again.fetch_or(uint64_t{1} << me);
    words.fetch_op(0, 8, LOCO_OP_MAX, 0.5 * me);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(again.load() == (uint64_t{1} << size) - 1);
    CHECK(words.fetch_op(0, 8, LOCO_OP_NO_OP, 0.0) == 0.5 * (size - 1));
    MPI_Barrier(MPI_COMM_WORLD);
}

static void locks(const loco::runtime &rt)
{
    loco::ticket_lock lock(rt, "lock", rt.everyone(), size - 1);
    loco::rw_lock rw(rt, "rw", rt.everyone(), 0);
    loco::region region(rt, "region", rt.everyone(), 64);
    loco::barrier barrier(rt, "barrier", rt.everyone());

    rt.wait_ready();
    for (int i = 0; i < 100; i++) {
        std::lock_guard<loco::ticket_lock> hold(lock);
        region.write64(0, 8, region.read64(0, 8) + 1);
    }
    barrier.wait();
    CHECK(region.read64(0, 8) == 100u * static_cast<unsigned>(size));
    barrier.wait();
    if (me == 0)
        lock.lock();
    barrier.wait();
    if (me != 0) {
        CHECK(!lock.try_lock());
        CHECK(!lock.try_lock_for(milliseconds(5)));
        CHECK(thrown([&] { lock.unlock(); }) == LOCO_ERR_STATE);
    }
    barrier.wait();
    if (me == 0)
        lock.ordered(LOCO_FENCE_PROCESS).unlock();
    barrier.wait();
    {
        std::unique_lock<loco::ticket_lock> hold(lock, seconds(60));
        CHECK(hold.owns_lock());
    }
#if __cplusplus >= 201402L
    {
        std::shared_lock<loco::rw_lock> reader(rw);
        CHECK(reader.owns_lock());
        barrier.wait();                 /* all read together */
    }
#endif
    {
        std::lock_guard<loco::rw_lock> writer(rw);
        CHECK(!rw.try_lock_shared());
        region.fetch_add(0, 16, 1);
    }
    barrier.wait();
    CHECK(region.read64(0, 16) == static_cast<unsigned>(size));
    barrier.wait();
}

static void regions(const loco::runtime &rt)
{
    loco::region region(rt, "region", rt.everyone(), 32 * sizeof(double));
    loco::barrier barrier(rt, "barrier", rt.everyone());
    double values[4] = {me + 0.5, me + 1.5, me + 2.5, me + 3.5}, seen[4];
    int next = (me + 1) % size, before = (me + size - 1) % size;

    rt.wait_ready();
    region.write(next, 8, values, 4);
    barrier.wait();
    CHECK(region.local<double>()[1] == before + 0.5);
#if __cplusplus >= 202002L
    CHECK(region.part<double>().size() == 32 && region.part<double>()[4] == before + 3.5);
#endif
    region.read(next, 8, seen, 4);
    CHECK(seen[3] == values[3]);
    CHECK(thrown([&] { region.read(next, 256, seen, 1); }) == LOCO_ERR_RANGE);
    CHECK(region.compare_swap(me, 0, 0, 5) == 0 && region.read64(me, 0) == 5);
    barrier.wait();
}

static void queues(const loco::runtime &rt)
{
    struct work {
        int from, number;
    };
    loco::queue<work> queue(rt, "queue", rt.everyone(), 8);
    loco::barrier barrier(rt, "barrier", rt.everyone());
    loco::atomic_var sum(rt, "sum", rt.everyone(), 0);
    work one;

    rt.wait_ready();
    CHECK(!queue.try_pop(one) && queue.size() == 0);
    CHECK(thrown([&] { loco::queue_wait_any({ queue.get() }, -1, 1000); }) == LOCO_ERR_TIMEOUT);
    barrier.wait();
    std::thread taker([&] {
        work got;

        while (queue.pop(got))
            sum.fetch_add(static_cast<uint64_t>(got.number));
    });
    for (int i = 1; i <= 50; i++)
        queue.push(work{me, i});
    barrier.wait();
    queue.shutdown();
    taker.join();
    barrier.wait();
    CHECK(sum.load() == 1275u * static_cast<unsigned>(size));
    CHECK(thrown([&] { queue.try_push(work{0, 0}); }) == LOCO_ERR_CLOSED);
    CHECK(loco::queue_wait_any({ queue.get() }) == 0);
    barrier.wait();
}

struct broken { };

static void transactions(const loco::runtime &rt)
{
    loco::store store(rt, "store", rt.everyone(), loco::store::sized(1 << 20));
    loco::barrier barrier(rt, "barrier", rt.everyone());

    rt.wait_ready();
    loco::tx tx(store);
    loco_object_t root = store.root(0);
    if (me == 0) {
        tx.begin();
        tx.write(root, 0L);
        tx.commit();
    }
    barrier.wait();
    for (int i = 0; i < 50; i++)
        tx.run([&](loco::tx &t) { t.write(root, t.read<long>(root) + 1); });
    barrier.wait();
    tx.run([&](loco::tx &t) { CHECK(t.read<long>(root) == 50L * size); });
    barrier.wait();
    bool caught = false;
    try {
        tx.run([&](loco::tx &t) {
            t.write(root, -1L);
            throw broken();
        });
    } catch (const broken &) {
        caught = true;
    }
    CHECK(caught);
    CHECK(thrown([&] { tx.run([&](loco::tx &t) { t.read<char>(root); }); }) == LOCO_ERR_SIZE);
    tx.begin();
    CHECK(tx.read<long>(root) == 50L * size);
    loco_object_t made = tx.make(me);
    tx.free(made);
    tx.abort();
    CHECK(thrown([&] { tx.commit(); }) == LOCO_ERR_STATE);
    barrier.wait();
}

template <class Map> static void map(Map &table, loco::barrier &barrier)
{
    std::string key = "key " + std::to_string(me), value;

    CHECK(!table.get(key, value) && !table.contains(key) && !table.erase(key));
    CHECK(thrown([&] { table.at(key); }) == LOCO_ERR_NOT_FOUND);
    CHECK(table.insert(key, "first") && !table.insert(key, "second"));
    CHECK(table.at(key) == "first");
    table.put(key, std::string(60000, 'x'));
    CHECK(table.get(key, value) && value == std::string(60000, 'x'));
    table.put(key, std::string("a\0b", 3));
    CHECK(table.at(key) == std::string("a\0b", 3) && table.contains(key));
    table.add("sum", 2);
    barrier.wait();
    int n = 0;
    table.scan([&](loco::bytes k, loco::bytes v) {
        CHECK(k.size() > 0 && (v.size() == 3 || k.str() == "sum"));
        n++;
        return true;
    });
    CHECK(n == size + 1);
    bool caught = false;
    try {
        table.scan([&](loco::bytes, loco::bytes) -> bool { throw broken(); });
    } catch (const broken &) {
        caught = true;
    }
    CHECK(caught);
    uint64_t total;
    value = table.at("sum");
    CHECK(value.size() == sizeof total);
    memcpy(&total, value.data(), sizeof total);
    CHECK(total == 2u * static_cast<unsigned>(size));
    barrier.wait();
    CHECK(table.erase(key));
    barrier.wait();
}

static void maps(const loco::runtime &rt)
{
    loco::store store(rt, "store", rt.everyone(), loco::store::sized(4 << 20));
    loco::barrier barrier(rt, "barrier", rt.everyone());

    rt.wait_ready();
    loco::tx tx(store);
    loco::tree tree(tx, store.root(0));
    loco::hash hash(tx, store.root(1));
    map(tree, barrier);
    map(hash, barrier);
    if (me == 0)
        for (const char *word : {"apple", "banana", "cherry"})
            tree.put(word, "fruit");
    barrier.wait();
    std::string seen;
    auto collect = [&](loco::bytes key, loco::bytes) {
        seen += key.str() + " ";
        return true;
    };
    tree.scan("b", "c", collect);
    tree.scan("c", collect);
    CHECK(seen == "banana cherry sum ");
    tree.scan([&](loco::bytes key, loco::bytes) { seen = key.str(); return false; });
    CHECK(seen == "apple");
#if __cplusplus >= 201703L
    std::string_view view = "banana!";
    CHECK(tree.at(view.substr(0, 6)) == "fruit");
#endif
    barrier.wait();
}

static void multicasts(const loco::runtime &rt)
{
    std::atomic<int> came(0);
    loco::barrier barrier(rt, "barrier", rt.everyone());
    loco_multicast_options_t slots = loco_multicast_options_t();
    slots.slots = 32;
    loco::multicast handled(rt, "handled", rt.everyone(),
                            [&](const loco_delivery_t *, int n) { came += n; });
    loco::multicast polled(rt, "polled", rt.everyone(), nullptr, slots), moved;

    rt.wait_ready();
    moved = std::move(handled);
    for (int i = 0; i < 9; i++)
        moved.post("message");
    moved.wait_delivered(moved.post("last"));
    barrier.wait();
    CHECK(came == 10 * size);
    std::string text = "from " + std::to_string(me);
    polled.post(text);
    for (int i = 0; i < size; i++) {
        loco_delivery_t one = polled.next();
        CHECK(loco::bytes(one.data, one.bytes).str() == "from " + std::to_string(one.sender));
    }
    CHECK(thrown([&] { polled.next(1000); }) == LOCO_ERR_TIMEOUT);
    barrier.wait();
}

/* The last rank joins, with the state of the others, where there are several. */
static void views(const loco::runtime &rt)
{
    std::atomic<int> came(0), told(0);
    std::string state = me < size - 1 ? "the state" : "";
    loco_view_options_t options = loco_view_options_t();
    loco::view_callbacks to;
    bool late = size > 1 && me == size - 1;

    options.outside = size > 1 ? uint64_t{1} << (size - 1) : 0;
    to.changed = [&](uint64_t, const int *, int n) { told += n > 0; };
    to.save = [&](uint64_t at, void *chunk, size_t) {
        if (at > 0)
            return size_t{0};
        std::memcpy(chunk, state.data(), state.size());
        return state.size();
    };
    to.load = [&](uint64_t at, const void *chunk, size_t n) {
        state = at == 0 ? std::string(static_cast<const char *>(chunk), n) : state;
    };
    loco::view made(rt, "view", rt.everyone(), std::move(to), options), moved;
    loco::view_multicast log = made.multicast("log",
                                              [&](const loco_delivery_t *, int n) { came += n; });

    rt.wait_ready();
    moved = std::move(made);
    CHECK(!made && moved && log);
    if (late)
        moved.join();
    moved.wait(size > 1);
    uint64_t number = 9;
    CHECK(static_cast<int>(moved.members(&number).size()) == size && number == (size > 1));
    CHECK(size == 1 || state == "the state");
    MPI_Barrier(MPI_COMM_WORLD);
    log.wait_delivered(log.post("message"));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(came == size && told == (size > 1));
    CHECK(thrown([&] { moved.wait(7, 1000); }) == LOCO_ERR_TIMEOUT);
    if (late)
        moved.leave();
    MPI_Barrier(MPI_COMM_WORLD);
}

static void topics(const loco::runtime &rt)
{
    std::atomic<int> came(0), kept(0);
    loco_topic_options_t options = loco_topic_options_t();
    options.level = LOCO_TOPIC_KEPT;
    options.history = 2;
    loco::topic topic(rt, "topic", rt.everyone(),
                      [&](const loco_sample_t *, int n) { came += n; }, options,
                      [&](loco_topic_event event, int64_t value) {
                          if (event == LOCO_TOPIC_SUBSCRIBED)
                              kept = static_cast<int>(value);
                      });

    rt.wait_ready();
    for (int i = 0; i < 5; i++)
        topic.post("sample");
    topic.wait_delivered(topic.post("last"));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(came == 0);
    topic.subscribe();
    while (kept == 0)
        std::this_thread::yield();
    MPI_Barrier(MPI_COMM_WORLD);
    topic.wait_delivered(topic.post("new"));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(kept == 2 && came == 2 + size);
    CHECK(thrown([&] { topic.logged(); }) == LOCO_ERR_STATE);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void groups(const loco::runtime &rt)
{
    MPI_Comm backwards;
    MPI_Win win;
    uint64_t *memory;

    MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &backwards);
    loco::group all = loco::meet(rt, backwards);
    CHECK(loco_group_rank(all) == size - 1 - me);
    loco::group one = loco::subset(all, {size - 1});
    CHECK(loco_group_size(one) == 1 && (loco_group_rank(one) == 0) == (me == 0));
    MPI_Win_allocate(8, 1, MPI_INFO_NULL, backwards, &memory, &win);
    {
        loco::region region = loco::region_of(win);
        region.fetch_add(0, 0, 1);
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK(region.read64(0, 0) == static_cast<unsigned>(size));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_free(&win);
    MPI_Comm_free(&backwards);
}

int main(int argc, char **argv)
{
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    {
        loco::runtime rt = loco::open_mpi(MPI_COMM_WORLD);

        me = rt.rank();
        size = rt.size();
        handles(rt);
        locks(rt);
        regions(rt);
        queues(rt);
        transactions(rt);
        maps(rt);
        multicasts(rt);
        views(rt);
        topics(rt);
        groups(rt);
    }
    MPI_Finalize();
    if (me == 0)
        std::printf("%d checks\n", checks);
    return 0;
}
