/** Small things of a key that clients of E2B know and Dormouse does not, by kind and name. */
export interface ItemStore {
  find(item: ItemRef): unknown
  list(kind: string, owner: string): readonly { readonly name: string; readonly value: unknown }[]
  put(item: ItemRef, value: object): void
  delete(item: ItemRef): void
}

export interface ItemRef {
  readonly kind: string
  /** The id of the key. */
  readonly owner: string
  readonly name: string
}
