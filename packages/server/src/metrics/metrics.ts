export interface Metrics {
  readonly contentType: string
  /** Numbers of the whole host. Without ids, names or anything else of a tenant: any key may read them. */
  text(): Promise<string>
}
