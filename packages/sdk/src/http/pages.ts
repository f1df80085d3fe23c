export interface Page<Item> {
  readonly items: readonly Item[]
  readonly nextCursor?: string | undefined
}

type Read<Item> = (query: { limit: number; cursor?: string }) => Promise<Page<Item>>

const PAGE_LIMIT = 100

/** A list of any length: `for await` reads it page by page, `all()` collects it. */
export class Pages<Item> implements AsyncIterable<Item> {
  readonly #read: Read<Item>

  constructor(read: Read<Item>) {
    this.#read = read
  }

  /** One page; the next one starts at its `nextCursor`. */
  page({
    limit = PAGE_LIMIT,
    cursor,
  }: {
    limit?: number
    cursor?: string | undefined
  } = {}): Promise<Page<Item>> {
    return this.#read(cursor === undefined ? { limit } : { limit, cursor })
  }

  async all(): Promise<Item[]> {
    const items: Item[] = []
    for await (const item of this) items.push(item)
    return items
  }

  /** The same list with `make` applied to each item. */
  map<Other>(make: (item: Item) => Other): Pages<Other> {
    return new Pages(async (query) => {
      const { items, nextCursor } = await this.#read(query)
      return { items: items.map(make), nextCursor }
    })
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void, undefined> {
    let cursor: string | undefined
    do {
      const page = await this.page({ cursor })
      yield* page.items
      cursor = page.nextCursor
    } while (cursor !== undefined)
  }
}
