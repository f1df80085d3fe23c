/**
 * Does `work`, and fails at SIGINT or SIGTERM, so that the caller cleans up. `work` may still be under way then, and
 * ends with the program. The signals stay caught until `cleanUp` is done.
 */
export async function untilInterrupted(work, cleanUp) {
  let interrupt
  const interrupted = new Promise((_resolve, reject) => {
    interrupt = (signal) => {
      console.error(`${signal}: cleaning up`)
      reject(new Error(`Interrupted by ${signal}.`))
    }
  })
  process.on('SIGINT', interrupt).on('SIGTERM', interrupt)
  try {
    return await Promise.race([work(), interrupted])
  } finally {
    await cleanUp()
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt)
  }
}
