import type { Sandbox } from 'dormouse'
import { RUNS_WITH_PLOTS_MAX } from '../limits.ts'
import { imagesOf, type RunImage } from '../runs/run-answer.ts'

export interface RunPlots {
  readonly runId: string
  readonly finishedAt: string | undefined
  readonly images: readonly RunImage[]
}

/** The newest runs that displayed images, newest first. Does not wake the sandbox. */
export async function recentPlots(sandbox: Sandbox, signal: AbortSignal): Promise<RunPlots[]> {
  const { items } = await sandbox.runs.list({ signal }).page({ limit: RUNS_WITH_PLOTS_MAX })
  const plots = await Promise.all(items.map(({ runId }) => plotsOf(sandbox, runId, signal)))
  return plots.filter(({ images }) => images.length > 0)
}

/** Throws `not_found` if there is no such run. */
export async function plotsOf(sandbox: Sandbox, runId: string, signal: AbortSignal): Promise<RunPlots> {
  const { result, finishedAt } = await sandbox.runs.get(runId, { signal })
  return { runId, finishedAt, images: (result?.results ?? []).flatMap(imagesOf) }
}
