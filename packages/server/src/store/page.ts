export interface Page<Item> {
  readonly items: readonly Item[]
  /** Undefined on the last page. */
  readonly nextCursor: string | undefined
}
