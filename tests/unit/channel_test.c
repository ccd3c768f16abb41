/* channel_test.c: messages and descriptors over a pair of sockets. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gateway/proto/proto.h"

static struct proto_message m; /* every test fills it anew */

/* These take the place of the C library's: what the kernel does too seldom to wait for. */
static int next_error;    /* the next call fails so */
static bool other_level;  /* what comes along is of another protocol's making */

static long call(long number, int fd, const struct msghdr *h, int flags) {
    if (next_error == 0) return syscall(number, fd, h, flags);
    errno = next_error;
    next_error = 0;
    return -1;
}

ssize_t sendmsg(int fd, const struct msghdr *h, int flags) {
    return call(SYS_sendmsg, fd, h, flags);
}

ssize_t recvmsg(int fd, struct msghdr *h, int flags) {
    long got = call(SYS_recvmsg, fd, h, flags);
    if (got > 0 && other_level) CMSG_FIRSTHDR(h)->cmsg_level = IPPROTO_IP;
    return got;
}

/* A message of this type that is taken. */
static void *good(enum proto_type type, unsigned items) {
    static const struct addr client = {.family = 4, .bytes = {10, 77, 1, 17}};
    void *body = proto_begin(&m, type, items);
    ck_assert_ptr_nonnull(body);
    if (type == PROTO_OPEN) {
        struct msg_open *b = body;
        b->client = client;
        ck_assert_int_eq(name_from_text("api.example", &b->name), 0);
        for (unsigned i = 0; i < items; i++) {
            struct msg_open_addr *a = proto_item(&m, i);
            *a = (struct msg_open_addr){.remote = client, .lifetime = 60};
            a->remote.bytes[3] = (uint8_t)i;
        }
    }
    if (type == PROTO_QUERY) {
        struct msg_query *b = body;
        b->client = client;
        ck_assert_int_eq(name_from_text("api.example", &b->name), 0);
        b->reason = REASON_ALLOWED;
        for (unsigned i = 0; i < items; i++) { /* as many hops as may be, then addresses */
            struct msg_query_item *q = proto_item(&m, i);
            q->kind = i >= PROTO_CHAIN_MAX;
            if (q->kind) q->remote = client;
            else q->name = b->name;
        }
    }
    ck_assert_int_eq(proto_check(m.bytes, m.size), 0);
    return body;
}

static struct channel near, far;

static void open_pair(void) {
    int fds[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    near = (struct channel){.fd = fds[0]};
    far = (struct channel){.fd = fds[1]};
}

static void close_pair(void) {
    close(near.fd);
    close(far.fd);
}

static unsigned open_descriptors(void) {
    unsigned count = 0;
    for (int fd = 0; fd < 256; fd++) count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static int memfd(void) {
    int fd = memfd_create("image", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}

START_TEST(messages_pass) {
    open_pair();
    good(PROTO_OPEN, 256);
    ck_assert_int_eq(channel_send(&near, &m), 0);
    good(PROTO_QUERY, 265);
    ck_assert_int_eq(channel_send(&near, &m), 0);
    uint64_t accept = PROTO_BIT(OPEN) | PROTO_BIT(QUERY);

    memset(&m, 0xee, sizeof m);
    ck_assert_int_eq(channel_receive(&far, &m, accept), 1);
    ck_assert_uint_eq(m.head.type, PROTO_OPEN);
    ck_assert_uint_eq(m.head.sequence, 1);
    ck_assert_uint_eq(m.size, proto_size(PROTO_OPEN, 256));
    ck_assert_uint_eq(((struct msg_open_addr *)proto_item(&m, 255))->remote.bytes[3], 255);
    ck_assert_uint_eq(m.fd_count, 0);
    ck_assert_int_eq(m.fds[0], -1);
    ck_assert_int_eq(channel_receive(&far, &m, accept), 1);
    ck_assert_uint_eq(m.head.type, PROTO_QUERY);
    ck_assert_uint_eq(far.received, 2);
    ck_assert_int_eq(channel_receive(&far, &m, accept), 0);
    close_pair();
}
END_TEST

START_TEST(refused_types) {
    open_pair();
    good(PROTO_OPEN, 1);
    ck_assert_int_eq(channel_send(&near, &m), 0);
    ck_assert_int_eq(channel_receive(&far, &m, ~PROTO_BIT(OPEN)), -EBADMSG);
    ck_assert_uint_eq(m.size, 0);
    ck_assert_int_eq(channel_receive(&far, &m, ~UINT64_C(0)), 0);
    close_pair();
}
END_TEST

static int received_raw(const void *bytes, size_t size) {
    ck_assert_int_eq(send(near.fd, bytes, size, MSG_DONTWAIT), (ssize_t)size);
    return channel_receive(&far, &m, ~UINT64_C(0));
}

START_TEST(refused_bytes) {
    static uint8_t big[PROTO_MAX + 1];
    open_pair();
    ck_assert_int_eq(received_raw("", 0), -EBADMSG);
    ck_assert_int_eq(received_raw("x", 1), -EBADMSG);
    ck_assert_int_eq(received_raw(big, sizeof big), -EBADMSG); /* cut short by the kernel */
    struct proto_head head = {PROTO_MAGIC, PROTO_STOP, 0, 0};  /* sequence 0 */
    ck_assert_int_eq(received_raw(&head, sizeof head), -EBADMSG);
    head.sequence = 5;
    ck_assert_int_eq(received_raw(&head, sizeof head), 1);
    close(near.fd);
    ck_assert_int_eq(channel_receive(&far, &m, ~UINT64_C(0)), -EBADMSG); /* end of stream */
    close(far.fd);
    ck_assert_int_eq(channel_receive(&far, &m, ~UINT64_C(0)), -EBADF);
}
END_TEST

START_TEST(gaps_are_counted) {
    open_pair();
    for (unsigned i = 0; i < 6; i++) {
        good(PROTO_STATE, 0);
        if (i == 0) near.sent = 40; /* a receiver that has just started takes any number */
        if (i == 2) near.sent += 3;
        if (i == 4) near.sent = 0; /* the sender was started again */
        ck_assert_int_eq(channel_send(&near, &m), 0);
        ck_assert_int_eq(channel_receive(&far, &m, PROTO_BIT(STATE)), 1);
        ck_assert_uint_eq(far.missed, i < 2 ? 0 : 3);
    }
    ck_assert_uint_eq(far.received, 2);
    close_pair();
}
END_TEST

START_TEST(a_full_queue_is_counted) {
    open_pair();
    unsigned sent = 0;
    int result;
    do {
        good(PROTO_QUERY, 265);
        result = channel_send(&near, &m);
        sent += result == 0;
    } while (result == 0 && sent < 10000);
    ck_assert_int_eq(result, -EAGAIN);
    ck_assert_uint_eq(near.lost, 1);
    for (unsigned i = 0; i < sent; i++)
        ck_assert_int_eq(channel_receive(&far, &m, PROTO_BIT(QUERY)), 1);
    good(PROTO_STOP, 0);
    ck_assert_int_eq(channel_send(&near, &m), 0);
    ck_assert_int_eq(channel_receive(&far, &m, PROTO_BIT(STOP)), 1);
    ck_assert_uint_eq(far.missed, 1);
    close(far.fd);
    good(PROTO_STOP, 0);
    ck_assert_int_eq(channel_send(&near, &m), -EPIPE);
    ck_assert_uint_eq(near.lost, 1);
    close(near.fd);
}
END_TEST

START_TEST(descriptors_pass) {
    open_pair();
    unsigned before = open_descriptors();
    int image = memfd(), report = memfd();
    struct msg_loaded *b = good(PROTO_LOADED, 0);
    b->ok = 1;
    m.fds[0] = image, m.fds[1] = report, m.fd_count = 2;
    ck_assert_int_eq(channel_send(&near, &m), 0);
    ck_assert_int_eq(channel_receive(&far, &m, PROTO_BIT(LOADED)), 1);
    ck_assert_uint_eq(m.fd_count, 2);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(fcntl(m.fds[i], F_GETFD), FD_CLOEXEC);
        close(m.fds[i]);
    }
    static const enum proto_type ones[] = {PROTO_LOADED, PROTO_POLICY, PROTO_RELOADED};
    for (size_t i = 0; i < 3; i++) {
        good(ones[i], 0);
        m.fds[0] = image, m.fd_count = 1;
        ck_assert_int_eq(channel_send(&near, &m), 0);
        ck_assert_int_eq(channel_receive(&far, &m, UINT64_C(1) << ones[i]), 1);
        ck_assert_uint_eq(m.fd_count, 1);
        close(m.fds[0]);
    }
    close(image);
    close(report);
    ck_assert_uint_eq(open_descriptors(), before);
    close_pair();
}
END_TEST

START_TEST(the_number_of_descriptors_is_exact) {
    open_pair();
    int fd = memfd();
    good(PROTO_POLICY, 0);
    ck_assert_int_eq(channel_send(&near, &m), -EINVAL);
    m.fds[0] = m.fds[1] = fd, m.fd_count = 2;
    ck_assert_int_eq(channel_send(&near, &m), -EINVAL);
    good(PROTO_STOP, 0);
    m.fds[0] = fd, m.fd_count = 1;
    ck_assert_int_eq(channel_send(&near, &m), -EINVAL);
    proto_begin(&m, PROTO_OPEN, 0);
    ck_assert_int_eq(channel_send(&near, &m), -EINVAL);
    ck_assert_uint_eq(near.sent, 0); /* our mistake, not a loss */
    close(fd);
    close_pair();
}
END_TEST

/* Sends a good STOP or POLICY with `count` descriptors, past channel_send(). */
static int received_with_fds(enum proto_type type, unsigned count) {
    union { char bytes[CMSG_SPACE(8 * sizeof(int))]; struct cmsghdr align; } space = {{0}};
    good(type, 0);
    m.head.sequence = 1;
    struct iovec data = {m.bytes, m.size};
    struct msghdr h = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = space.bytes,
                       .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *part = CMSG_FIRSTHDR(&h);
    part->cmsg_level = SOL_SOCKET, part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(count * sizeof(int));
    int fd = memfd();
    for (unsigned i = 0; i < count; i++)
        memcpy(CMSG_DATA(part) + i * sizeof fd, &fd, sizeof fd);
    ck_assert_int_eq(sendmsg(near.fd, &h, 0), (ssize_t)m.size);
    close(fd);
    return channel_receive(&far, &m, ~UINT64_C(0));
}

START_TEST(unwanted_descriptors_are_closed) {
    open_pair();
    unsigned before = open_descriptors();
    ck_assert_int_eq(received_with_fds(PROTO_STOP, 1), -EBADMSG);
    ck_assert_int_eq(received_with_fds(PROTO_STOP, 2), -EBADMSG);
    ck_assert_int_eq(received_with_fds(PROTO_POLICY, 2), -EBADMSG);
    ck_assert_int_eq(received_with_fds(PROTO_POLICY, 3), -EBADMSG); /* cut by the kernel */
    ck_assert_int_eq(received_with_fds(PROTO_POLICY, 8), -EBADMSG);
    ck_assert_uint_eq(m.fd_count, 0);
    ck_assert_uint_eq(open_descriptors(), before);
    ck_assert_int_eq(received_with_fds(PROTO_POLICY, 1), 1);
    close(m.fds[0]);

    /* Anything beside descriptors is a breach as well: here the kernel adds credentials. */
    ck_assert_int_eq(setsockopt(far.fd, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)), 0);
    good(PROTO_STOP, 0);
    ck_assert_int_eq(channel_send(&near, &m), 0);
    ck_assert_int_eq(channel_receive(&far, &m, ~UINT64_C(0)), -EBADMSG);
    close_pair();
}
END_TEST

START_TEST(interrupted_calls_are_repeated) {
    open_pair();
    good(PROTO_STOP, 0);
    next_error = EINTR;
    ck_assert_int_eq(channel_send(&near, &m), 0);
    next_error = EINTR;
    ck_assert_int_eq(channel_receive(&far, &m, PROTO_BIT(STOP)), 1);
    ck_assert_int_eq(channel_receive(&far, &m, PROTO_BIT(STOP)), 0); /* sent once */
    close_pair();
}
END_TEST

START_TEST(no_memory_is_a_full_queue) {
    open_pair();
    good(PROTO_STOP, 0);
    next_error = ENOBUFS;
    ck_assert_int_eq(channel_send(&near, &m), -EAGAIN);
    ck_assert_uint_eq(near.lost, 1);
    ck_assert_int_eq(channel_send(&near, &m), 0);
    ck_assert_int_eq(channel_receive(&far, &m, PROTO_BIT(STOP)), 1);
    close_pair();
}
END_TEST

START_TEST(only_descriptors_come_along) {
    open_pair();
    other_level = true;
    ck_assert_int_eq(received_with_fds(PROTO_POLICY, 1), -EBADMSG);
    ck_assert_uint_eq(m.fd_count, 0);
    close_pair();
}
END_TEST

int main(void) {
    TCase *c = tcase_create("channel");
    tcase_add_test(c, messages_pass);
    tcase_add_test(c, refused_types);
    tcase_add_test(c, refused_bytes);
    tcase_add_test(c, gaps_are_counted);
    tcase_add_test(c, a_full_queue_is_counted);
    tcase_add_test(c, descriptors_pass);
    tcase_add_test(c, the_number_of_descriptors_is_exact);
    tcase_add_test(c, unwanted_descriptors_are_closed);
    tcase_add_test(c, interrupted_calls_are_repeated);
    tcase_add_test(c, no_memory_is_a_full_queue);
    tcase_add_test(c, only_descriptors_come_along);
    Suite *s = suite_create("channel");
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
