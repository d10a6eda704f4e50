"""A small convolutional VAE; a latent has half the height and width of its image."""

from __future__ import annotations

from torch import Tensor, nn

from regularization import Posterior


class VAE(nn.Module):
    """Images (B, C, H, W) to a posterior over latents (B, L, H / 2, W / 2), and back."""

    def __init__(self, channels: int = 3, latent: int = 2, width: int = 8) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1), nn.SiLU(), nn.Conv2d(width, 2 * latent, 2, stride=2)
        )
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(latent, width, 2, stride=2), nn.SiLU(), nn.Conv2d(width, channels, 3, padding=1)
        )

    def encode(self, images: Tensor) -> Posterior:
        return Posterior(*self.encoder(images).chunk(2, dim=1))

    def decode(self, latents: Tensor) -> Tensor:
        return self.decoder(latents)
