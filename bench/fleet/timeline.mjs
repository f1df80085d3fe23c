/** A heap of items by their `endS`. */
export class Timeline {
  #items = []

  add(item) {
    const items = this.#items
    items.push(item)
    for (let at = items.length - 1; at > 0; ) {
      const above = (at - 1) >> 1
      if (items[above].endS <= items[at].endS) break
      ;[items[above], items[at]] = [items[at], items[above]]
      at = above
    }
  }

  /** Removes and yields the items that end by then, earliest first. */
  *takeUntil(untilS) {
    while (this.#items.length > 0 && this.#items[0].endS <= untilS) yield this.#takeFirst()
  }

  #takeFirst() {
    const items = this.#items
    const first = items[0]
    const last = items.pop()
    if (items.length > 0) items[0] = last
    for (let at = 0; ; ) {
      let least = at
      for (const below of [2 * at + 1, 2 * at + 2])
        if (below < items.length && items[below].endS < items[least].endS) least = below
      if (least === at) return first
      ;[items[least], items[at]] = [items[at], items[least]]
      at = least
    }
  }
}
