/** The answer of the host that made a sandbox or a job. */
export interface Created {
  readonly status: number
  readonly body: unknown
  /** Of that host. */
  readonly address: string
}

export interface CreateElsewhere {
  /** Undefined when this host should make the sandbox. Throws `host_unavailable` when no host can. */
  create(body: object, keyId: string): Promise<Created | undefined>
  /** The same for a job that starts from a sandbox of another host. */
  createJob(body: { readonly sandbox?: string | undefined }, keyId: string): Promise<Created | undefined>
}
