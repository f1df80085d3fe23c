export interface StoredObject {
  readonly name: string
  readonly bytes: number
}

/** Where a depot keeps its objects: small files with names of letters, digits, `_` and `-`. */
export interface ObjectStore {
  /** Replaces an object of this name, unless `keepsFirst`. False when there was one and it was kept. */
  put(name: string, content: Uint8Array, options?: { keepsFirst?: boolean }): Promise<boolean>
  find(name: string): Promise<Uint8Array | undefined>
  has(name: string): Promise<boolean>
  /** Does nothing when there is none. */
  remove(name: string): Promise<void>
  list(): AsyncIterable<StoredObject>
  /** The time of the store: hosts do not agree on one. */
  nowMs(): Promise<number>
}
