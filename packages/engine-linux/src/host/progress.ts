export interface Progress {
  /** 0 to 100, never falling within one piece of work. */
  readonly percent?: number
  /** What is happening now, in a few words. */
  readonly doing?: string
}

export type ReportProgress = (progress: Progress) => void
