export interface Metrics {
  readonly contentType: string
  /** Numbers of the whole host, without ids and names: any key may read them. */
  text(): Promise<string>
}
