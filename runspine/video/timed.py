"""Frames into an MP4 as they come, each shown when it was seen. For what cannot wait for an encoder."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

from runspine.video.clip import Clip, Frame, FrameDigest, NoVideo

# Milliseconds.
TICK = Fraction(1, 1000)
OPTIONS = {"preset": "ultrafast", "crf": "23", "threads": "1"}


def encode_timed(frames: Iterable[tuple[float, Frame]], path: Path, *, fps: int) -> Clip:
    """Write a clip of frames of one size and the seconds at which each was seen. Raises NoVideo."""
    try:
        import av
    except ImportError as error:
        raise NoVideo("PyAV is not installed: pip install 'runspine[replay]'") from error
    digest, size = FrameDigest(), (0, 0)
    draft = path.with_name(f".{path.name}.part")
    try:
        with av.open(str(draft), "w", format="mp4", options={"movflags": "+faststart"}) as container:
            stream: Any = None
            last = -1
            for seconds, frame in frames:
                # The codec takes even sizes.
                even = frame[: frame.shape[0] // 2 * 2, : frame.shape[1] // 2 * 2]
                if stream is None:
                    size = even.shape[1], even.shape[0]
                    stream = container.add_stream("libx264", rate=fps, options=OPTIONS)
                    stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
                    stream.codec_context.time_base = TICK
                picture = av.VideoFrame.from_ndarray(even, format="rgb24")
                last = picture.pts = max(last + 1, round(seconds / TICK))
                picture.time_base = TICK
                digest.add(even)
                container.mux(stream.encode(picture))
            if stream is None:
                raise NoVideo("there was no frame to show")
            container.mux(stream.encode())
        draft.rename(path)
    except (av.FFmpegError, ValueError) as error:
        raise NoVideo(f"the clip could not be encoded: {error}") from error
    finally:
        draft.unlink(missing_ok=True)
    return Clip(path, digest.frames, *size, fps, digest.hexdigest())
