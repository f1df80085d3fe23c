/** Who asks: an API key, or the server itself. */
export interface Caller {
  readonly keyId: string
  /** May use the sandboxes, volumes and templates of every key. */
  readonly isAdmin: boolean
}
