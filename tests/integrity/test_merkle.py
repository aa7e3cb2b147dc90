"""The tree: every byte of every leaf counts, and nothing passes for something else."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether.integrity.merkle import DEPTH, LEAVES_MAX, Leaf, Tree, node_hash, root_from, unpack_leaves

leaves = st.builds(
    Leaf,
    st.text(max_size=12),
    st.binary(max_size=24),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1),
)


def some(n: int) -> list[Leaf]:
    return [Leaf(f"item{i}", bytes([i]) * i, 1000 + i, i) for i in range(n)]


@given(leaves, leaves)
def test_two_leaves_hash_alike_only_if_they_are_the_same(a: Leaf, b: Leaf) -> None:
    assert (a.hash() == b.hash()) == (a == b)


def test_moving_a_byte_from_name_to_value_changes_the_hash() -> None:
    assert Leaf("ab", b"c", 1, 1).hash() != Leaf("a", b"bc", 1, 1).hash()


@given(st.lists(leaves, max_size=5))
def test_packed_leaves_read_back(some_leaves: list[Leaf]) -> None:
    assert list(unpack_leaves(b"".join(leaf.pack() for leaf in some_leaves))) == some_leaves


@given(st.binary(max_size=60))
def test_any_bytes_are_either_leaves_or_a_value_error(data: bytes) -> None:
    try:
        read = unpack_leaves(data)
    except ValueError:
        return
    assert b"".join(leaf.pack() for leaf in read) == data


def test_leaves_and_nodes_are_hashed_apart() -> None:
    left, right = hashlib.sha256(b"l").digest(), hashlib.sha256(b"r").digest()
    assert node_hash(left, right) == hashlib.sha256(b"\x01" + left + right).digest()
    assert node_hash(left, right) != hashlib.sha256(b"\x00" + left + right).digest()
    leaf = Leaf("n", b"v", 7, 9)
    packed = b"\x00\x01n" + b"\x00\x00\x00\x01v" + (7).to_bytes(8, "big") + (9).to_bytes(8, "big")
    assert leaf.hash() == hashlib.sha256(b"\x00" + packed).digest()


def test_root_depends_on_every_leaf_and_on_its_place() -> None:
    base = some(5)
    roots = {Tree.of(base).root, Tree.of([*base[:3], base[4], base[3]]).root, Tree.of(base[:4]).root}
    for i in range(5):
        for changed in (
            Leaf("other", base[i].value, base[i].stamp_ns, base[i].sequence),
            Leaf(base[i].name, base[i].value + b"\0", base[i].stamp_ns, base[i].sequence),
            Leaf(base[i].name, base[i].value, base[i].stamp_ns + 1, base[i].sequence),
            Leaf(base[i].name, base[i].value, base[i].stamp_ns, base[i].sequence + 1),
        ):
            roots.add(Tree.of([*base[:i], changed, *base[i + 1 :]]).root)
    assert len(roots) == 3 + 5 * 4


def test_an_absent_leaf_is_not_an_empty_one() -> None:
    assert Tree.of([Leaf("", b"", 0, 0)]).root != Tree.of([]).root


@pytest.mark.parametrize("n", [1, 5, 16])
def test_every_leaf_proves_by_its_path_that_it_is_under_the_root(n: int) -> None:
    tree = Tree.of(some(n))
    for i, leaf in enumerate(some(n)):
        assert len(tree.path(i)) == DEPTH
        assert root_from(leaf, i, tree.path(i)) == tree.root
        assert root_from(leaf, i ^ 1, tree.path(i)) != tree.root
        assert root_from(Leaf("x", leaf.value, 1, 1), i, tree.path(i)) != tree.root


@pytest.mark.parametrize("i", range(16))
def test_replacing_a_leaf_gives_the_tree_of_the_new_leaves(i: int) -> None:
    before, new = some(16), Leaf("new", b"value", 5, 6)
    tree = Tree.of(before)
    assert tree.replaced(i, new).root == Tree.of([*before[:i], new, *before[i + 1 :]]).root
    assert tree.root == Tree.of(before).root


def test_more_than_sixteen_leaves_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 16"):
        Tree.of(some(LEAVES_MAX + 1))
