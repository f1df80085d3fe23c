import { signal } from '@preact/signals'
import type { ReadVariableOptions, VariableDetail } from 'dormouse'

type Table = NonNullable<VariableDetail['table']>
type Row = Table['rows'][number]
type Options = Pick<
  ReadVariableOptions,
  'offset' | 'limit' | 'columnOffset' | 'columns' | 'sort' | 'descending' | 'filter'
>

export const COLUMNS = 50
const PAGE = 100
/** Pages that stay in memory. */
const PAGES_MAX = 40

export interface Arrangement {
  readonly sort?: number
  readonly descending: boolean
  readonly filter: Readonly<Record<number, string>>
  readonly columnOffset: number
}

/** The rows of a table in the sandbox: only pages that were on the screen are read. */
export class TableRows {
  readonly counts = signal({ rows: 0, matches: 0, columns: 0 })
  readonly columns = signal<Table['columns']>([])
  readonly arrangement = signal<Arrangement>({ descending: false, filter: {}, columnOffset: 0 })
  readonly problem = signal<string | undefined>(undefined)
  /** Counts up when rows have come. */
  readonly version = signal(0)
  readonly part: string | undefined
  readonly #read: (options: Options) => Promise<Table>
  readonly #pages = new Map<number, readonly Row[]>()
  readonly #asked = new Set<number>()

  constructor(first: Table, read: (options: Options) => Promise<Table>) {
    this.#read = read
    this.part = first.part
    this.#count(first)
  }

  row(index: number): Row | undefined {
    return this.#pages.get(Math.floor(index / PAGE))?.[index % PAGE]
  }

  arrange(change: Partial<Arrangement>): void {
    this.arrangement.value = { ...this.arrangement.value, ...change }
    this.#pages.clear()
    this.#asked.clear()
    this.want(0, 1)
  }

  /** Reads the rows from `first` to `last` unless they are here or on their way. */
  want(first: number, last: number): void {
    for (let page = Math.floor(first / PAGE); page <= Math.floor(last / PAGE); page++)
      if (!this.#asked.has(page)) void this.#readPage(page)
  }

  async #readPage(page: number): Promise<void> {
    this.#asked.add(page)
    const arrangement = this.arrangement.value
    try {
      const table = await this.#read({ ...arrangement, offset: page * PAGE, limit: PAGE, columns: COLUMNS })
      // Sorted or filtered another way meanwhile.
      if (this.arrangement.value !== arrangement) return
      this.#keep(page, table.rows)
      this.columns.value = table.columns
      this.#count(table)
      this.problem.value = undefined
    } catch (error) {
      if (this.arrangement.value !== arrangement) return
      this.#asked.delete(page)
      this.problem.value = String((error as Error).message)
    }
    this.version.value += 1
  }

  #keep(page: number, rows: readonly Row[]): void {
    this.#pages.set(page, rows)
    const [oldest] = this.#pages.keys()
    if (this.#pages.size <= PAGES_MAX || oldest === undefined) return
    this.#pages.delete(oldest)
    this.#asked.delete(oldest)
  }

  #count({ rowCount: rows, matchCount: matches, columnCount: columns }: Table): void {
    const before = this.counts.value
    if (before.rows !== rows || before.matches !== matches || before.columns !== columns)
      this.counts.value = { rows, matches, columns }
  }
}
