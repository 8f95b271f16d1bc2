#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: incr of a value that is not a number as a whole is the error that protocol.txt promises for
# it, "cannot increment or decrement non-numeric value", and leaves it alone. A value below 0 is no
# number either: counters are unsigned.
# Seen, memcached 1.6.18: what follows the first white space does not count, and is overwritten:
# incr of "12 apples" by 1 is 13, and the value is "13       ". A counter that decr took from 10 to
# 9, so to "9 ", is still 9 when append has added "3" to it. "-1" is an error, but
# "-18446744073709551615" counts as 1.
set -eu
cd "$(dirname "$0")/.."
. findings/packages

install bookworm memcached=1.6.18-1 perl-base
cat >"$tree_root/root/ask" <<'PERL'
use IO::Socket::UNIX;
my $server = IO::Socket::UNIX->new(Peer => "/root/socket") or die "no server: $!";
sub ask {
    my ($command, $lines) = @_;
    print $server "$command\r\n";
    my $answer = "";
    $answer .= <$server> for 1 .. $lines;
    return $answer =~ s/\r\n$//r;
}
sub value { return (split /\r\n/, ask("get k", 3))[1] }
sub set { ask("set k 0 0 " . length($_[0]) . "\r\n$_[0]", 1) }
for my $old ("12", "12apples", "12 apples", "12\n{}", "-1", "-18446744073709551615") {
    set($old);
    my $answer = ask("incr k 1", 1);
    my $line = "'$old' + 1: $answer, '" . value() . "'\n";
    print $line =~ s/\n(?=.)/\\n/gr;
}
set("10");
print "'10' - 1: ", ask("decr k 1", 1), ", '", value(), "'";
ask("append k 0 0 1\r\n3", 1);
print ", with 3 appended '", value(), "', + 1: ", ask("incr k 1", 1), "\n";
PERL
still "'12' + 1: 13, '13'
'12apples' + 1: CLIENT_ERROR cannot increment or decrement non-numeric value, '12apples'
'12 apples' + 1: 13, '13       '
'12\n{}' + 1: 13, '13   '
'-1' + 1: CLIENT_ERROR cannot increment or decrement non-numeric value, '-1'
'-18446744073709551615' + 1: 2, '2                    '
'10' - 1: 9, '9 ', with 3 appended '9 3', + 1: 10" \
    "$(inside 'memcached -u root -s /root/socket &
               until [ -S /root/socket ]; do sleep 0.1; done; timeout 20 perl ask')"
exit $changed
