import type { SandboxDependencies } from './sandbox-dependencies.ts'

/** Lets `work` go on without its caller. A server that stops waits for it. */
export function inBackground(
  { background }: Pick<SandboxDependencies, 'background'>,
  work: Promise<void>,
): void {
  const running = work.finally(() => background.delete(running))
  background.add(running)
}
